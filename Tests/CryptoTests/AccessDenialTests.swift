import Crypto
import Glibc
import Testing

@Suite struct `A file that may not be opened` {
  private let root = AccessDenial.Holder(user: 0, group: 0)
  private let other = AccessDenial.Holder(user: 65_000, group: 65_001)

  private func denial(
    _ surroundings: AccessDenial.Surroundings, folder: String? = nil, mode: mode_t = 0o600,
    as tried: AccessDenial.Holder? = nil, path: String = "/etc/x/server.key"
  ) -> AccessDenial {
    AccessDenial(path, folder: folder, (root, mode), tried ?? other, in: surroundings)
  }

  @Test func `names its owner, its mode and who tried`() {
    #expect(
      denial(.plain).facts == "its owner is root:root, its mode 0600, and sallyport tried as 65000:65001")
    #expect(
      denial(.plain, folder: "/etc/x", mode: 0o700).facts
        == "the folder /etc/x can't be entered: its owner is root:root, its mode 0700, and sallyport tried as 65000:65001"
    )
  }

  @Test func `has the one hint that fits where it runs`() {
    let systemd = denial(.systemd).hint
    #expect(
      systemd
        == "LoadCredential=server.key:/etc/x/server.key in the unit and credential:server.key here, or chgrp 65001 /etc/x/server.key && chmod 0640 /etc/x/server.key"
    )
    #expect(
      denial(.systemd, path: "/home/a/k").hint.hasSuffix("ProtectHome= in the unit hides what is under /home and /root")
    )
    let cluster = denial(.kubernetes).hint
    #expect(
      cluster.contains("uid 65000") && cluster.contains("fsGroup: 65001") && cluster.contains("defaultMode: 0440"))
    let container = denial(.container).hint
    #expect(container.contains("the image runs as uid 65000") && !container.contains("fsGroup"))
    let plain = denial(.plain).hint
    #expect(plain.hasPrefix("chgrp 65001 /etc/x/server.key && chmod 0640 /etc/x/server.key, or run"))
    for hint in [cluster, container, plain] { #expect(!hint.contains("LoadCredential")) }
    #expect(denial(.plain, folder: "/etc/x").hint.hasPrefix("chgrp 65001 /etc/x && chmod g+x /etc/x"))
    // No key for a group that other services share, nor for root's.
    let closed = AccessDenial("/a", folder: nil, (other, 0o600), root, in: .systemd)
    #expect(closed.hint.contains("chgrp sallyport /a"))
    if let nobody = getgrnam("nogroup") {
      let shared = denial(.plain, as: .init(user: 65_534, group: nobody.pointee.gr_gid)).hint
      #expect(shared.contains("chgrp sallyport") && shared.contains("as the user sallyport"))
    }
  }

  @Test func `is not blamed for a mode that lets it`() {
    for mode in [0o644, 0o604] as [mode_t] { #expect(denial(.systemd, mode: mode).hint.contains("AppArmor")) }
    #expect(denial(.plain, mode: 0o640, as: .init(user: 5, group: 0)).hint.contains("SELinux"))
  }

  @Test func `is explained only where the system refused`() {
    #expect(AccessDenial(of: "/etc/passwd", ENOENT) == nil)
    #expect(AccessDenial(of: "/etc/passwd", EACCES)?.facts.contains("its owner is root:root, its mode 0644") == true)
  }
}
