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
        \(client(port, options))


      """
  }

  private func client(_ port: String, _ options: ProxyOptions) -> String {
    let (authority, certificate, key) = (file("ca.crt"), file("client.crt"), file("client.key"))
    guard options.one(.tcp)?.text == "on" else {
      return "curl --cacert \(authority) --cert \(certificate) --key \(key) https://localhost:\(port)/"
    }
    let kind = options.one(.starttls)?.text
    if kind == "postgres" {
      return "psql 'host=localhost port=\(port) sslmode=verify-full sslrootcert=\(authority) sslcert=\(certificate)"
        + " sslkey=\(key)'"
    }
    let words = kind.map { " -starttls \($0)" } ?? ""
    return "openssl s_client -quiet -connect localhost:\(port)\(words) -CAfile \(authority) -cert \(certificate)"
      + " -key \(key)"
  }
}
