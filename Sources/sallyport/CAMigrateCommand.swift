import ArgumentParser
import Enrolment

struct CAMigrateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate", abstract: "Move an authority's register into a database, or back into its folder.",
    discussion: """
      In a database (PostgreSQL), several machines can issue and revoke at the same time. Each has a folder with `ca.crt`, \
      `private/ca.key`, the file `database` and a copy of `crl.pem`: copy the folder to them after this command. If the \
      command ends in the middle, run it again.
      """
  ).example("sallyport ca migrate /etc/sallyport/ca --store 'postgresql://ca@db.example.com/ca'")

  @OptionGroup var argument: AuthorityArgument
  @Option(
    help: ArgumentHelp(
      "Move the register into this PostgreSQL database: postgresql://USER@HOST/DATABASE.",
      valueName: "uri"))
  var store: String?
  @Flag(help: "Move the register into the folder. No machine can use that of the database any more.")
  var toFolder = false
  @OptionGroup var password: AuthorityPassword

  func validate() throws {
    guard (store == nil) == toFolder else { throw ValidationError("give --store URI or --to-folder") }
  }

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let authority = try password.authority(of: argument)
      let path = authority.store.folder.path
      if let store {
        let count = try authority.moveRegister(to: store)
        print("\(path): the register with \(count) certificates is in the database that \(path)/database names")
        print("the folder's own files of it are named .moved, and nothing uses them any more")
      } else {
        let count = try authority.moveRegisterToFolder()
        print("\(path): the register with \(count) certificates is in the folder")
      }
    }
  }
}
