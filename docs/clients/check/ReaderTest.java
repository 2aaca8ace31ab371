import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class ReaderTest {
    @Test
    void losesNoRow() throws Exception {
        var command = new String[] {"inorder", "lab", "check", "--program", System.getProperty("reader"),
                                  "--dsn", System.getProperty("dsn"), "--schedules", "20"};
        assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
    }
}
