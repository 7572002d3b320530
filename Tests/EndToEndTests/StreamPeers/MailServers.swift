import Foundation
import TestSupport

/// A real Exim, which takes mail for anybody at example.org.
struct EximServer: Sendable {
  static let isInstalled = PeerFolder.has("exim4", "swaks")
  let port: UInt16
  private let folder: PeerFolder

  /// A line for each delivery, and for each fault of a client.
  var log: String { folder.text("mainlog") }

  /// What was delivered.
  var mail: [String] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/mail/new")) ?? []
    return names.sorted().map { folder.text("mail/new/\($0)") }
  }

  /// `identity`: it offers STARTTLS, and takes no mail without.
  static func start(_ scene: Scene, identity: IdentityFiles? = nil) async throws -> EximServer {
    let folder = try PeerFolder(scene, "exim"), port = try scene.port()
    for name in ["spool", "mail"] { try scene.makeFolder("exim/\(name)") }
    var tls = "tls_advertise_hosts ="
    if let identity {
      try folder.take(identity)
      tls = """
        tls_advertise_hosts = *
        tls_certificate = \(folder.path)/server.pem
        tls_privatekey = \(folder.path)/server.key
        """
    }
    let settings = try folder.write(
      "exim.conf",
      text: """
        exim_user = \(PeerFolder.user)
        exim_group = \(PeerFolder.group)
        admin_groups = \(PeerFolder.group)
        trusted_groups = \(PeerFolder.group)
        never_users =
        deliver_drop_privilege = true
        spool_directory = \(folder.path)/spool
        log_file_path = \(folder.path)/%slog
        pid_file_path = \(folder.path)/pid
        keep_environment =
        primary_hostname = mail.example.org
        disable_ipv6 = true
        local_interfaces = 127.0.0.1
        daemon_smtp_ports = \(port)
        host_lookup =
        rfc1413_hosts =
        \(tls)
        acl_smtp_rcpt = recipient

        begin acl
        recipient:
          deny message = encryption required
            condition = ${if and{{bool{\(identity == nil ? "no" : "yes")}}{!def:tls_in_cipher}}}
          accept domains = example.org
          deny message = relay not permitted

        begin routers
        here:
          driver = accept
          transport = box

        begin transports
        box:
          driver = appendfile
          directory = \(folder.path)/mail
          maildir_format
          user = \(PeerFolder.user)
          group = \(PeerFolder.group)

        """)
    try await folder.handOver()
    try await folder.serve(["exim4", "-C", settings, "-bdf"], log: ["mainlog", "paniclog"]) { accepts(port) }
    return EximServer(port: port, folder: folder)
  }
}

/// A real Dovecot, which lets anybody in whose password is secret, to the one mailbox.
struct DovecotServer: Sendable {
  static let isInstalled = PeerFolder.has("dovecot") && FileManager.default.fileExists(atPath: "/usr/lib/dovecot/pop3")
  static let password = "secret"
  let imap: UInt16
  let pop3: UInt16
  private let folder: PeerFolder

  var log: String { folder.text("log") }

  /// `identity`: it offers STARTTLS, and lets nobody in without. `isToldAddresses`: connections begin with a PROXY header.
  static func start(
    _ scene: Scene, identity: IdentityFiles? = nil, isToldAddresses: Bool = false
  ) async throws -> DovecotServer {
    let folder = try PeerFolder(scene, "dovecot"), (imap, pop3) = try (scene.port(), scene.port())
    for name in ["run", "state", "mail"] { try scene.makeFolder("dovecot/\(name)") }
    if let identity { try folder.take(identity) }
    let version = try await scene.succeed("dovecot", "--version")
    let header = isToldAddresses ? "haproxy = yes" : ""
    let isNew = !version.hasPrefix("2.3.")
    let settings = try folder.write(
      "dovecot.conf",
      text: (isNew ? ofVersion24(folder, identity != nil) : ofVersion23(folder, identity != nil)) + """

        base_dir = \(folder.path)/run
        state_dir = \(folder.path)/state
        log_path = \(folder.path)/log
        listen = 127.0.0.1
        default_internal_user = \(PeerFolder.user)
        default_internal_group = \(PeerFolder.group)
        default_login_user = \(PeerFolder.user)
        first_valid_uid = 1
        haproxy_trusted_networks = 127.0.0.1
        service imap-login {
          chroot =
          inet_listener imap {
            port = \(imap)
            \(header)
          }
          inet_listener imaps {
            port = 0
          }
        }
        service pop3-login {
          chroot =
          inet_listener pop3 {
            port = \(pop3)
            \(header)
          }
          inet_listener pop3s {
            port = 0
          }
        }
        service anvil {
          chroot =
        }
        service stats {
          chroot =
        }

        """)
    try await folder.handOver()
    try await folder.serve(["dovecot", "-F", "-c", settings], log: ["log"]) { accepts(imap) && accepts(pop3) }
    return DovecotServer(imap: imap, pop3: pop3, folder: folder)
  }

  /// Debian 12.
  private static func ofVersion23(_ folder: PeerFolder, _ isTLS: Bool) -> String {
    """
    protocols = imap pop3
    \(isTLS ? "ssl = required\nssl_cert = <\(folder.path)/server.pem\nssl_key = <\(folder.path)/server.key" : "ssl = no")
    disable_plaintext_auth = \(isTLS ? "yes" : "no")
    mail_location = maildir:\(folder.path)/mail
    passdb {
      driver = static
      args = password=\(password)
    }
    userdb {
      driver = static
      args = uid=\(PeerFolder.user) gid=\(PeerFolder.group) home=\(folder.path)/mail
    }
    """
  }

  /// Debian 13.
  private static func ofVersion24(_ folder: PeerFolder, _ isTLS: Bool) -> String {
    """
    dovecot_config_version = 2.4.0
    dovecot_storage_version = 2.4.0
    protocols {
      imap = yes
      pop3 = yes
    }
    \(isTLS
      ? "ssl = required\nssl_server_cert_file = \(folder.path)/server.pem\nssl_server_key_file = \(folder.path)/server.key"
      : "ssl = no")
    auth_allow_cleartext = \(isTLS ? "no" : "yes")
    mail_driver = maildir
    mail_path = \(folder.path)/mail
    mail_home = \(folder.path)/mail
    mail_uid = \(PeerFolder.user)
    mail_gid = \(PeerFolder.group)
    passdb static {
      password = \(password)
    }
    userdb static {
    }
    """
  }
}
