import Glibc

/// Debian's Chromium, headless, with a home, an NSS store, a profile and policies of its own.
///
/// It runs in mount and process namespaces of its own: nobody but it sees the policies, which it reads from a path of
/// the system's, and none of its processes outlives it.
package struct Chromium: Sendable {
  package struct View: Sendable {
    /// The document as it stands after loading, as HTML; empty where it was not loaded.
    package let document: String
    package let errors: String
    /// A PNG.
    package let screenshot: String
  }

  package let home: String
  private let scene: Scene
  private var store: String { "sql:\(home)/.pki/nssdb" }

  /// `policies`: a JSON object.
  package init(_ scene: Scene, policies: String) async throws {
    self.scene = scene
    let name = "home-\(UInt32.random(in: 0...UInt32.max))"
    home = scene.path(name)
    for folder in [".pki/nssdb", "tmp", "etc/policies/managed"] { try scene.makeFolder("\(name)/\(folder)") }
    try scene.write("\(name)/etc/policies/managed/test.json", text: policies)
    try await scene.succeed("certutil", "-d", store, "-N", "--empty-password")
  }

  /// Whether it is installed, and may have the namespaces.
  package static func isAtHand() async -> Bool {
    let look = "mount --bind /tmp /etc/chromium; for tool in chromium certutil pk12util; do command -v $tool; done"
    return await Scene.succeeds(namespaces[0], namespaces.dropFirst() + ["sh", "-ec", look])
  }

  /// Who is not root is root in there, as mount asks.
  private static let namespaces =
    ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    + (getuid() == 0 ? [] : ["--map-root-user"])

  package func trust(_ authority: String) async throws {
    try await scene.succeed("certutil", "-d", store, "-A", "-t", "C,,", "-n", "CA", "-i", authority)
  }

  package func take(_ archive: String, password: String) async throws {
    try await scene.succeed("pk12util", "-d", store, "-i", archive, "-W", password, "-K", "")
  }

  package func open(_ url: String) async throws -> View {
    let screenshot = "\(home)/page-\(UInt32.random(in: 0...UInt32.max)).png"
    let options = [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=\(home)/profile",
      "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost", "--force-color-profile=srgb",
      "--window-size=400,300", "--dump-dom", "--screenshot=\(screenshot)", url,
    ]
    let start = ["sh", "-ec", "mount --bind \"$0\" /etc/chromium; exec chromium \"$@\"", "\(home)/etc"]
    let result = try await scene.run(
      Self.namespaces[0], Self.namespaces.dropFirst() + start + options,
      environment: ["HOME": home, "TMPDIR": "\(home)/tmp"], within: .seconds(90))
    return View(document: result.text, errors: result.errors, screenshot: screenshot)
  }
}
