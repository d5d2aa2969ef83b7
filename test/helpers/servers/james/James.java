import org.apache.james.MemoryJamesConfiguration;
import org.apache.james.MemoryJamesServerMain;
import org.apache.james.data.UsersRepositoryModuleChooser;
import org.apache.james.utils.DataProbeImpl;

/** Apache James in memory, for one mailbox. Arguments: its folder, which has `conf`; the user; the password. */
public class James {
  public static void main(String[] args) throws Exception {
    var configuration = MemoryJamesConfiguration.builder()
        .workingDirectory(args[0])
        .usersRepository(UsersRepositoryModuleChooser.Implementation.DEFAULT)
        .build();
    var server = MemoryJamesServerMain.createServer(configuration);
    server.start();
    var data = server.getProbe(DataProbeImpl.class);
    data.addDomain(args[1].substring(args[1].indexOf('@') + 1));
    data.addUser(args[1], args[2]);
  }
}
