/// What the demo tells once it listens: commands to paste.
struct DemoGuide {
  let files: DemoFiles
  let port: UInt16
  let configuration: String

  var text: String {
    let url = "https://localhost:\(port)/hello"
    let curl = "curl --cacert \(quoted("ca.crt"))"
    return """

      sallyport asks for a client certificate on \(url)
      and passes requests on to a TLS upstream whose key is pinned.
      Configuration: \(configuration)

      With the client's certificate: 200, and the echo shows its DN.
        \(curl) --cert \(quoted("client.crt")) --key \(quoted("client.key")) \(url)
      The same as PKCS#12; its password is \(DemoFiles.password).
        \(curl) --cert-type P12 --cert \(quoted("client.p12", then: ":\(DemoFiles.password)")) \(url)
      Without a certificate: 400.
        \(curl) \(url)

      Ctrl-C ends it; the files stay for the next start.

      """ + "\n"
  }

  /// For a shell, where needed.
  private func quoted(_ name: String, then suffix: String = "") -> String {
    let word = files.path(name) + suffix
    let plain = word.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-:".contains($0)) }
    return plain
      ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
  }
}
