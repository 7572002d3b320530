@testable import Loading
@testable import Traffic
@testable import Forward
@testable import Features
import Sandbox
import Testing

@testable import Configuration
@testable import Language

@Suite struct `What the sandbox must know of a configuration` {
  private func needs(_ text: String) throws -> [FileNeed] {
    let loaded = Configuration.load(text: text, fileName: "/etc/sallyport/sallyport.conf")
    let settings = try #require(loaded.settings, "\(loaded.diagnostics)")
    return FileNeeds.all(settings, files: ["/etc/sallyport/sallyport.conf", "/inc/more.conf"])
  }

  private func uses(_ text: String) throws -> Set<FileNeed> {
    Set(try needs(text).map { FileNeed($0.use, $0.path) })
  }

  @Test func `each path of a full configuration is known, with what is done there`() throws {
    let needs = try uses(
      """
      pid /run/sallyport/x.pid; error_log /var/log/a/error.log;
      http {
        access_log /var/log/b/access.log;
        server {
          listen 443 ssl; listen unix:/run/x.sock;
          ssl_certificate /c/server.pem; ssl_certificate_key /k/server.key; ssl_password_file /p/words;
          ssl_client_certificate /ca/clients.pem; ssl_verify_client on; ssl_crl /crl/list.pem; ssl_dhparam /dh/dh.pem;
          ssl_session_ticket_key /t/ticket.key;
          location / {
            error_log /var/log/c/error.log; client_body_temp_path /bodies;
            proxy_pass https://127.0.0.1; proxy_ssl_name a.test; proxy_ssl_pin /pins/a.pem;
            proxy_ssl_trusted_certificate /up/ca.pem; proxy_ssl_certificate /up/c.pem; proxy_ssl_certificate_key /up/k.pem;
            proxy_via http://127.0.0.1:3128 user_file=/u/proxy;
            proxy_auth basic; proxy_auth_user_file /u/upstream; proxy_auth_persistence permanent; proxy_auth_state /state;
          }
          location /files/ { root /srv/www; auth_basic x; auth_basic_user_file /u/users; }
          location /named/ { root /srv/www; auth_basic x; auth_basic_user_file /u2/of/$host; }
          location /alias/ { alias /srv/alias/; }
          location /shown/ {
            proxy_pass https://127.0.0.1; proxy_ssl_trusted_certificate /up/ca.pem; proxy_ssl_name a.test;
            proxy_ssl_certificate /shown/$ssl_client_serial.pem; proxy_ssl_certificate_key /shown/$ssl_client_serial.key;
          }
          location /logged/ { access_log /var/log/d/$host.log; return 204; }
          location = /enrol {
            enrolment on; enrolment_authority /authority;
            auth_basic x; auth_basic_user_file /u3/users;
          }
        }
        map $ssl_server_name $pair { default /tables/site; a.test /tables/a/$server_name; }
        server {
          listen 444 ssl; server_name t.test; ssl_certificate $pair.pem; ssl_certificate_key $pair.key; return 204;
        }
      }
      """)
    for path in [
      "/etc/sallyport/sallyport.conf", "/inc/more.conf", "/c/server.pem", "/k/server.key", "/p/words",
      "/ca/clients.pem",
      "/crl/list.pem", "/dh/dh.pem", "/t/ticket.key", "/pins/a.pem", "/up/ca.pem", "/up/c.pem", "/up/k.pem",
      "/u/upstream", "/u/proxy", "/srv/www", "/u/users", "/u2/of", "/srv/alias/", "/shown", "/u3/users", "/tables",
      "/tables/a",
    ] { #expect(needs.contains(FileNeed(.read, path)), "\(path)") }
    for path in ["/var/log/a/error.log", "/var/log/b/access.log", "/var/log/c/error.log"] {
      #expect(needs.contains(FileNeed(.append, path)), "\(path)")
    }
    for path in ["/run/sallyport/x.pid", "/run/x.sock"] { #expect(needs.contains(FileNeed(.replace, path)), "\(path)") }
    for path in ["/bodies", "/state", "/authority", "/var/log/d/"] {
      #expect(needs.contains(FileNeed(.change, path)), "\(path)")
    }
  }

  @Test func `an issuer's folder may be changed if it is there, and nothing above one that is missing`() throws {
    let needs = try uses(
      """
      http {
        acme_issuer a { uri https://ca.test/; state_path /usr/bin; account_key /acme/a.key;
          external_account_key k /acme/eab; ssl_trusted_certificate /acme/ca.pem; }
        acme_issuer b { uri https://ca.test/; state_path /usr/bin/nothing/here; }
        server { listen 80; acme_certificate a a.test; return 204; }
        server { listen 80; server_name b; acme_certificate b b.test; return 204; }
      }
      """)
    #expect(needs.contains(FileNeed(.change, "/usr/bin")) && !needs.contains { $0.path.contains("nothing") })
    for path in ["/acme/a.key", "/acme/eab", "/acme/ca.pem"] {
      #expect(needs.contains(FileNeed(.read, path)), "\(path)")
    }
  }

  @Test func `a key in a token is found`() throws {
    let text = """
      http { server { listen 1 ssl; ssl_certificate /c.pem; ssl_certificate_key "engine:pkcs11:pkcs11:object=a";
        return 204; } }
      """
    let settings = try #require(Configuration.load(text: text, fileName: "/x.conf").settings)
    #expect(FileNeeds.tokenKey(settings.http.materialReferences) != nil)
  }

  /// The directives that name a file or folder, each of which is in `FileNeeds` or needs no rule. A new one belongs there,
  /// and then here.
  private static let known: Set<String> = [
    "include", "pid", "error_log", "access_log", "audit_log", "client_record", "root", "alias", "client_body_temp_path",
    "auth_basic_user_file",
    "enrolment_authority", "proxy_auth_user_file", "proxy_auth_state", "proxy_via", "ssl_certificate",
    "ssl_certificate_key",
    "ssl_password_file", "ssl_client_certificate", "ssl_trusted_certificate", "ssl_crl", "ssl_crl_cache",
    "ssl_dhparam",
    "ssl_session_ticket_key", "ssl_stapling_file", "proxy_ssl_certificate", "proxy_ssl_certificate_key",
    "proxy_ssl_password_file", "proxy_ssl_trusted_certificate", "proxy_ssl_crl", "proxy_ssl_pin", "listen",
    "message_envelope_key", "message_signature_key", "client_identity", "client_identity_keys", "client_token",
    "account_key",
    "state_path",
    "shared_store",
    "keyval_zone", "state",
    // Names below `root` or `alias`.
    "index", "try_files",
  ]

  @Test func `a directive that names a file is known to the sandbox`() {
    let naming = Features.all.directives.table.families.flatMap(\.entries).filter { entry in
      entry.status == .supported && !["grpc_", "uwsgi_"].contains { entry.name.hasPrefix($0) }
        && ["FILE", "FOLDER", "DIR"].contains { entry.form.usage.contains($0) }
    }
    #expect(naming.count > 10)
    for name in Set(naming.map(\.name)).sorted() { #expect(Self.known.contains(name), "\(name)") }
  }
}
