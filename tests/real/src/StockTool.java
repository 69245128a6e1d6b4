import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;

/** The stock tools' own main methods, run inside this process: a JVM a call would cost seconds. */
final class StockTool {
    record Ran(int code, String out, String err) { }

    /** What the tool's exit becomes. */
    private static final class Ended extends RuntimeException {
        private final int code;

        Ended(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    private static boolean caught;

    /** The tools end the process through a class of Kafka's that can be told to do something else. */
    private static void catchExit() throws ReflectiveOperationException {
        if (caught) {
            return;
        }
        Class<?> exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        for (var method : exit.getMethods()) {
            if (method.getName().equals("setExitProcedure") || method.getName().equals("setHaltProcedure")) {
                Class<?> procedure = method.getParameterTypes()[0];
                method.invoke(null, Proxy.newProxyInstance(procedure.getClassLoader(), new Class<?>[] {procedure}, (self, called, args) -> {
                    throw new Ended((Integer) args[0]);
                }));
            }
        }
        caught = true;
    }

    static synchronized Ran run(String main, String... args) throws ReflectiveOperationException {
        catchExit();
        PrintStream out = System.out, err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream(), complained = new ByteArrayOutputStream();
        int code = 0;
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Ended ended) {
                code = ended.code;
            } else {
                code = 1;
                e.getCause().printStackTrace();
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return new Ran(code, said.toString(StandardCharsets.UTF_8), complained.toString(StandardCharsets.UTF_8));
    }

    private StockTool() { }
}
