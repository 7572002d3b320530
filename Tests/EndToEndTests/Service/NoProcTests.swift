import Glibc
import TestSupport
import Testing

private let canHideProc =
  geteuid() == 0
  && ProgramRun.succeeds("unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && test ! -e /proc/self")

/// A container image or a chroot may have no /proc.
@Suite(
  .staged, .enabled(if: canHideProc, "unshare -m and a mount are not permitted here"),
  .disabled(if: Sanitizer.isUsed, "a sanitizer needs /proc"))
struct `Without /proc` {
  private let launcher = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"]

  @Test func `the binary says its version, checks and serves`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    _ = try Cast(scene)
    let text = configuration(
      "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: "off")) location / { return 200 ok; } }"
    )
    let binary = try Sallyport.binary()
    let version = try await scene.run("unshare", launcher.dropFirst() + [binary, "--version"])
    #expect(version.status == 0 && version.text.contains("sallyport"), "\(version.everything)")
    let path = try scene.write("checked.conf", text: "user root; " + text)
    let check = try await scene.run("unshare", launcher.dropFirst() + [binary, "check", "--config", path])
    #expect(check.status == 0 && check.text.contains("is valid"), "\(check.everything)")
    let daemon = try Sallyport(scene, text, launcher: launcher)
    try await daemon.untilReady()
    let answer = try await scene.curl(
      ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost/"])
    #expect(answer.status == 200)
    daemon.signal(SIGHUP)
    try await daemon.logged("generation 2")
  }
}
