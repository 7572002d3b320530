import CPostgreSQL
import Glibc

/// Where a database is and how it is reached: a URI of libpq, `postgresql://USER@HOST[:PORT]/DATABASE?sslmode=verify-full`
/// (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING).
///
/// Over a network it is always TLS with a verified name: whoever could stand between could hand out certificates.
package struct PostgresAddress: Sendable, Hashable {
  /// As it was written. It may hold a password.
  package let uri: String
  /// For messages, without a password: `USER@HOST/DATABASE`.
  package let words: String
  /// Files that libpq opens for each session.
  package let files: [String]
  /// What libpq is told, in its words.
  let options: [String: String]

  package init(_ uri: String) throws(PostgresError) {
    guard uri.hasPrefix("postgresql://") || uri.hasPrefix("postgres://") else {
      throw PostgresError(
        .address, "no URI of PostgreSQL: expected postgresql://USER@HOST/DATABASE",
        hint: "postgresql://sallyport@db.example.com/sallyport?sslmode=verify-full&sslrootcert=FILE")
    }
    let library = try PostgresLibrary.loaded()
    var options = try Self.defaults(library)
    for (key, value) in try Self.parsed(uri, library) { options[key] = value }
    if let service = options["service"], !service.isEmpty {
      throw PostgresError(
        .address, "service=\(service) takes the address from another file", hint: "write the whole address")
    }
    let hosts = Self.hosts(options)
    if let remote = hosts.first(where: { !Self.isOfThisMachine($0) }), options["sslmode"] != "verify-full" {
      throw PostgresError(
        .address, "\(remote) without sslmode=verify-full: whoever stands between could hand out certificates",
        hint: "add ?sslmode=verify-full&sslrootcert=FILE, with the CA of the database")
    }
    // Its encryption would come before TLS, and knows nothing of the CA.
    options["gssencmode"] = "disable"
    let ours = ["connect_timeout": "5", "application_name": "sallyport", "target_session_attrs": "read-write"]
    for (key, value) in ours where (options[key] ?? "").isEmpty || options[key] == "any" { options[key] = value }
    options["client_encoding"] = "UTF8"
    self.uri = uri
    self.options = options
    words =
      "\(options["user"] ?? "?")@\(hosts.joined(separator: ","))/\(options["dbname"] ?? options["user"] ?? "?")"
    files = ["sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile"].compactMap { options[$0] }
      .filter { $0.hasPrefix("/") }
  }

  /// Where libpq connects to. `hostaddr` is the place, and `host` the name that is verified.
  private static func hosts(_ options: [String: String]) -> [String] {
    let text = [options["hostaddr"], options["host"]].compactMap { $0 }.first { !$0.isEmpty } ?? ""
    return text.isEmpty
      ? ["local socket"] : text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
  }

  private static func isOfThisMachine(_ host: String) -> Bool {
    if host.isEmpty || host == "local socket" || host == "localhost" || host == "::1" { return true }
    if host.hasPrefix("/") || host.hasPrefix("@") { return true }
    var address = in_addr()
    return inet_pton(AF_INET, host, &address) == 1 && UInt32(bigEndian: address.s_addr) >> 24 == 127
  }

  private static func parsed(_ uri: String, _ library: PostgresLibrary) throws(PostgresError) -> [String: String] {
    var fault: UnsafeMutablePointer<CChar>?
    guard let list = library.parse(uri, &fault) else {
      let reason = PostgresError.line(fault)
      library.freeMemory(fault)
      throw PostgresError(.address, "the URI of PostgreSQL can't be read: \(reason)")
    }
    return taken(list, library)
  }

  /// With those of the environment, such as PGSSLROOTCERT.
  private static func defaults(_ library: PostgresLibrary) throws(PostgresError) -> [String: String] {
    guard let list = library.defaults() else { throw PostgresError(.library, "libpq has no memory") }
    return taken(list, library)
  }

  private static func taken(
    _ list: UnsafeMutablePointer<PQconninfoOption>, _ library: PostgresLibrary
  ) -> [String: String] {
    var options: [String: String] = [:]
    var next = list
    while let keyword = next.pointee.keyword {
      if let value = next.pointee.val { options[String(cString: keyword)] = String(cString: value) }
      next += 1
    }
    library.freeOptions(list)
    return options
  }
}
