import Configuration
import Glibc

/// The CA and certificates of `sallyport proxy --demo-ca`: those of `sallyport demo`, in the same folder.
struct ProxyTrial {
  private let files: DemoFiles

  init(in folder: String?) throws(DemoFailure) {
    let path = if let folder { folder } else { try DemoFolder.standard() }
    let folder = try DemoFolder(path)
    try folder.refuseOthers()
    files = DemoFiles(in: folder, names: [])
    _ = try files.refresh()
  }

  func file(_ name: String) -> String { files.folder.file(name) }

  func renew() { DemoRenewal(files, every: 3600).start() }

  func guide(_ options: ProxyOptions) -> String {
    let listen = options.one(.listen)?.text ?? ""
    let port = listen.split(separator: ":").last.map(String.init) ?? listen
    return """

      This is for a trial: the CA's key is a file in \(files.folder.path), and so are the certificates. Try:
        curl --cacert \(file("ca.crt")) --cert \(file("client.crt")) --key \(file("client.key")) https://localhost:\(port)/


      """
  }
}
