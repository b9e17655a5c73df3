//! `memwright k8s`: what Kubernetes schedules by.
//!
//! - `condition`: the conditions of a node, and the patch that sets them; pure
//! - `api`: asks the API server, for a limited time
//! - `publish`: checks the node and sets its conditions, once or at an interval

mod api;
mod condition;
mod publish;

use crate::args::{K8sArgs, K8sCommand};
use crate::{Exit, Failure};

pub(crate) fn run(args: &K8sArgs) -> Result<Exit, Failure> {
    match &args.command {
        K8sCommand::Condition(args) => publish::run(args),
    }
}
