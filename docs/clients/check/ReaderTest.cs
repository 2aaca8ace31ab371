using System.Diagnostics;
using Xunit;

public class ReaderTest
{
    [Fact]
    public void LosesNoRow()
    {
        using var check = Process.Start("inorder", ["lab", "check", "--program", "dotnet Reader.dll", "--schedules", "20"]);
        check.WaitForExit();
        Assert.Equal(0, check.ExitCode);
    }
}
