import ConfigurationSupport
@testable import Features
@testable import Forward
import TLS
import Testing
@testable import Traffic

/// Variables of `map`, `geo` and `split_clients` in `ssl_certificate`.
@Suite struct HandshakeTableTests {
  private func loaded(_ tables: String, _ certificate: String = "$pair") -> LoadedText {
    LoadedText(
      """
      events {}
      http { \(tables)
      server { listen 443 ssl; server_name s.test; ssl_certificate \(certificate).pem; ssl_certificate_key \(certificate).key;
      ssl_certificate_cache off; return 204; } }
      """)
  }

  private func named(_ tables: String, _ certificate: String = "$pair") throws -> CertificatePath {
    let loaded = loaded(tables, certificate)
    let settings = try #require(loaded.settings, "\(loaded.problems)")
    #expect(loaded.problems == [])
    return try #require(settings.http.servers[0].tls?.namedCertificates.first).certificate
  }

  @Test(arguments: [
    "map $ssl_server_name $pair { default a; ~^(.+)\\.test$ $1; b $server_name; c $remote_addr; }",
    "map $server_addr:$server_port $pair { default a; }", "geo $pair { default a; 10.0.0.0/8 b; }",
    "geo $ssl_server_name $pair { default a; }", "split_clients $remote_addr $pair { 50% a; * b; }",
    "map $ssl_server_name $in { a b; } map $in $pair { b $in; }",
    "map $ssl_server_name $pair { ~^(?<n>.+)$ $n; }",
  ]) func `are taken if a handshake knows all that they need`(tables: String) throws {
    #expect(try named(tables).description == "${pair}.pem")
  }

  @Test(arguments: [
    ("map $uri $pair { default a; }", "\"$pair\" needs \"$uri\", which is not known when the certificate is chosen"),
    ("map $ssl_server_name $pair { a $http_x; }", "\"$pair\" needs \"$http_x\", which is not known"),
    ("map $arg_a $in { a b; } map $ssl_server_name $pair { a $in; }", "\"$pair\" needs \"$arg_a\", which is"),
    ("split_clients $request_id $pair { * a; }", "\"$pair\" needs \"$request_id\", which is not known"),
    ("geo $pair { default a; proxy 10.0.0.1; }", "\"$pair\" needs X-Forwarded-For, which is not known"),
    (
      "map $ssl_server_name $pair { a $set; } server { listen 1; set $set x; return 204; }",
      "\"$pair\" needs \"$set\", which is not known"
    ),
  ]) func `are refused with the variable that needs a request`(tables: String, reason: String) {
    let errors = loaded(tables).errors
    #expect(errors.count == 2 && errors.allSatisfy { $0.contains(reason) }, "\(errors)")
  }

  @Test func `that need each other are one problem`() {
    let errors = loaded("map $b $pair { default $b; } map $pair $b { default $pair; }").errors
    #expect(errors.count == 1 && errors.first?.contains("cycle while evaluating variable") == true, "\(errors)")
    let chain = (0..<5000).map { "map $v\($0 + 1) $v\($0) { default $v\($0 + 1); }" }.joined(separator: "\n")
    let long = loaded(chain + "\nmap $ssl_server_name $v5000 { default a; } map $v0 $pair { default $v0; }").errors
    #expect(long.allSatisfy { $0.contains("needs a chain of more than 100 variables") } && !long.isEmpty)
  }

  @Test func `tell the folders of their files`() throws {
    let tables = "map $ssl_server_name $pair { default site; a certs/a; b /b/c/d; c $ssl_server_name; d ''; }"
    #expect(try named(tables).folders == ["/b/c", "/etc", "/etc/certs"])
    #expect(try named(tables, "certs/$pair").folders == ["/etc/certs"])
    let whole =
      "map $ssl_server_name $in { x /x/deep; } map $ssl_server_name $pair { default $in; a /certs; b ''; c /y$in; }"
    #expect(try named(whole, "$pair/pair").folders == ["/", "/certs", "/x/deep"])
    #expect(try named("geo $pair { default /g; } ", "$pair/pair").folders == ["/g"])
  }

  @Test func `are equal if their lines are`() throws {
    let table = "map $ssl_server_name $pair { a b; }"
    #expect(try named(table) == named("\n" + table))
    #expect(try named(table) != named("map $ssl_server_name $pair { a c; }"))
  }

  @Test func `have values as in a request, and none that would choose another folder`() throws {
    let text = """
      events {}
      http { geo $near { 10.0.0.0/8 near; default far; }
      map $ssl_server_name $v { hostnames; default $near; *.w.test wild; "~^n-(?<who>.+)$" <$who>; "~^c-(.)(x)?" [$1$2]; }
      map /$ssl_server_name $slash { "~^(.+)$" $1; }
      map $ssl_server_name $upper { UP.test $server_name; }
      server { listen 1; return 204; } }
      """
    let loaded = LoadedText(text)
    let http = try #require(loaded.settings, "\(loaded.problems)").http
    let slots = Dictionary(http.slotNames.map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
    let tables = HandshakeTables(http.computed, serverName: "s.test")
    func value(_ name: String, _ sni: String?, _ address: String = "192.0.2.1") throws -> String? {
      let slot = try #require(slots[name])
      return tables.value(of: slot) { variable in
        switch variable {
        case .ssl_server_name: sni.map { Array($0.utf8) }
        case .remote_addr: Array(address.utf8)
        case .server_addr, .server_port: nil
        }
      }.map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(try value("v", "a.w.test") == "wild" && value("v", "n-al") == "<al>" && value("v", "c-yz") == "[y]")
    #expect(try value("v", "") == "far" && value("v", "", "10.1.2.3") == "near" && value("v", nil) == nil)
    #expect(try value("slash", "a") == nil)
    #expect(try value("upper", "up.test") == "s.test" && value("upper", "x") == "")
  }
}
