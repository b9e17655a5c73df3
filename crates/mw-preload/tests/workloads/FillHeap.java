import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;

/** Fills so many MiB of the heap, three times, and prints a checksum. */
public class FillHeap {
    public static void main(String[] arguments) {
        System.out.println("started");
        int mib = Integer.parseInt(arguments[0]);
        CRC32 sum = new CRC32();
        for (int round = 0; round < 3; round++) {
            List<byte[]> pieces = new ArrayList<>();
            for (int i = 0; i < mib; i++) {
                byte[] piece = new byte[1 << 20];
                Arrays.fill(piece, (byte) (i + round));
                pieces.add(piece);
            }
            for (byte[] piece : pieces) sum.update(piece, 0, 4096);
        }
        System.out.println("sum " + sum.getValue());
    }
}
