import ArgumentParser
import Bytes
import Crypto
import Enrolment
import Glibc

struct CAInspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect",
    abstract: "Say in plain words what a certificate, CSR, revocation list, key or PKCS#12 contains.",
    discussion: """
      PEM or DER; `-` reads standard input. The command verifies no chain, and prints no private key, only the pin of its \
      public half. Warnings say what is wrong, such as an end in the past. The exit status is 0 with warnings, too.
      """
  ).example("sallyport ca inspect client.crt")

  @Argument(help: "The file, or - for standard input.")
  var file: String
  @Option(help: "A file with pass phrases for a key or PKCS#12, one on each line.")
  var passwordFile: String?
  @Flag(help: "Print a JSON array with an object for each part of the file.")
  var json = false

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      var passwords: [SecretBytes] = []
      if let passwordFile { passwords = try CATool.passwords(passwordFile, of: "--password-file") }
      let inspection = Inspection(try CATool.objects(of: file, passwords: passwords))
      print(json ? inspection.json : inspection.text)
    }
  }
}

extension CATool {
  /// A file that an argument names; `-` is standard input.
  static func reference(_ file: String) -> MaterialReference {
    MaterialReference(path: file == "-" ? "/dev/stdin" : file)
  }

  static func objects(of file: String, passwords: [SecretBytes]) throws(AuthorityError) -> [InspectedObject] {
    do throws(MaterialError) { return try InspectedObject.loadAll(reference(file), passwords: passwords) } catch {
      throw AuthorityError(error.message, hint: error.hint)
    }
  }
}
