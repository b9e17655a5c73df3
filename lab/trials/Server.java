import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.Random;
import java.util.concurrent.Executors;

/** A service in a JVM: GET /work allocates objects, keeps some, and computes; /fill/MIB keeps so much in small objects. */
class Server {
    private static final byte[][] kept = new byte[4096][];
    private static volatile Object[][] filled;

    private static int work() {
        Random random = new Random();
        int sum = 0;
        for (int i = 0; i < 200; i++) {
            byte[] piece = new byte[1024];
            kept[random.nextInt(kept.length)] = piece;
            sum += kept[random.nextInt(kept.length)] == null ? 0 : 1;
        }
        return sum;
    }

    private static void fill(int mib) {
        filled = null;
        Object[][] lists = new Object[mib][];
        for (int i = 0; i < mib; i++) {
            // An array of 104 bytes and its reference: 10000 of them are about 1 MiB.
            lists[i] = new Object[10000];
            for (int j = 0; j < lists[i].length; j++) {
                lists[i][j] = new byte[80];
            }
        }
        filled = lists;
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 16);
        server.createContext("/work", exchange -> {
            byte[] answer = (work() + "\n").getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.createContext("/fill", exchange -> {
            String path = exchange.getRequestURI().getPath();
            fill(Integer.parseInt(path.substring(path.lastIndexOf('/') + 1)));
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }
}
