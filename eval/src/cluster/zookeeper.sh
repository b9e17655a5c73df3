# One server with the monitor of pauses, which is stopped.
ip link set lo up
cat >"$DIR/zoo.cfg" <<CONF
tickTime=2000
dataDir=$DIR/data
clientPort=2181
clientPortAddress=127.0.0.1
admin.enableServer=false
jvm.pause.monitor=true
jvm.pause.sleep.time.ms=500
jvm.pause.info-threshold.ms=1000
jvm.pause.warn-threshold.ms=3000
CONF
cat >"$DIR/log4j.properties" <<CONF
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} - %-5p [%t:%c{1}@%L] - %m%n
CONF
classes=$(ls /usr/share/java/zookeeper.jar /usr/share/java/zookeeper-jute.jar /usr/share/java/log4j-1.2.jar /usr/share/java/slf4j-*.jar /usr/share/java/netty*.jar /usr/share/java/snappy*.jar /usr/share/java/metrics*.jar /usr/share/java/commons-*.jar /usr/share/java/jackson*.jar 2>/dev/null | tr '\n' ':')
java -Dzookeeper.jvm.pause.monitor=true -cp "$DIR:$classes" org.apache.zookeeper.server.quorum.QuorumPeerMain "$DIR/zoo.cfg" >"$LOG" 2>&1 &
for _ in $(seq 300); do grep -qi 'binding to port\|JVM Pause Monitor' "$LOG" && break; sleep 0.1; done
sleep 3
kill -STOP $!
sleep 4
kill -CONT $!
sleep 3
