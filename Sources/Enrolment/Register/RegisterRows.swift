import Bytes
import Crypto

/// The tables of a register, and how certificates get into them.
struct RegisterRows {
  typealias Row = (entry: AuthorityIndex.Entry, certificate: Certificate?, token: String?)

  /// Counted up when the tables change.
  static let format = "1"

  private let rows: [Row]

  init(_ rows: [Row]) { self.rows = rows }

  /// Makes the tables unless they are there.
  static func makeTables(_ session: RegisterSession) throws(AuthorityError) {
    // CREATE TABLE IF NOT EXISTS fails when two do it at once. The number is sallyport's own.
    try session.run("SELECT pg_advisory_xact_lock(7306347621)")
    // The columns of a certificate are those of a line of index.txt, and its names, by which it is found.
    try session.run(
      """
      CREATE TABLE IF NOT EXISTS sallyport_authority (
        id text PRIMARY KEY,
        format integer NOT NULL,
        certificate text NOT NULL,
        list text NOT NULL,
        list_number bigint NOT NULL,
        moved text
      )
      """)
    try session.run(
      """
      CREATE TABLE IF NOT EXISTS sallyport_certificate (
        authority text NOT NULL REFERENCES sallyport_authority,
        serial text NOT NULL,
        place bigint GENERATED ALWAYS AS IDENTITY,
        state text NOT NULL CHECK (state IN ('V', 'R', 'E')),
        not_after bigint NOT NULL,
        revocation text NOT NULL,
        file text NOT NULL,
        subject text NOT NULL,
        names text[] NOT NULL,
        certificate text,
        token text UNIQUE,
        PRIMARY KEY (authority, serial)
      )
      """)
    try session.run(
      "CREATE INDEX IF NOT EXISTS sallyport_certificate_names ON sallyport_certificate USING gin (names)")
  }

  /// A serial that is there already fails, and so does the transaction.
  func insert(into session: RegisterSession, _ authority: String) throws(AuthorityError) {
    try insert(into: session, authority, "")
  }

  /// A serial that is there already is the same certificate, and is revoked if either of them is.
  func merge(into session: RegisterSession, _ authority: String) throws(AuthorityError) {
    try insert(
      into: session, authority,
      """
      ON CONFLICT (authority, serial) DO UPDATE SET
        state = CASE WHEN sallyport_certificate.state = 'R' THEN 'R' ELSE EXCLUDED.state END,
        revocation = CASE WHEN sallyport_certificate.state = 'R' THEN sallyport_certificate.revocation
          ELSE EXCLUDED.revocation END,
        certificate = coalesce(sallyport_certificate.certificate, EXCLUDED.certificate),
        token = coalesce(sallyport_certificate.token, EXCLUDED.token)
      """)
  }

  private func insert(
    into session: RegisterSession, _ authority: String, _ conflict: String
  ) throws(AuthorityError) {
    // A statement has 65,535 parameters at most.
    for start in stride(from: 0, to: rows.count, by: 500) {
      var parameters: [String?] = [authority]
      var values: [String] = []
      for row in rows[start..<min(start + 500, rows.count)] {
        let marks = row.entry.marks
        let names = row.certificate?.subject.commonName ?? row.entry.commonName
        let columns: [String?] = [
          row.entry.serial, marks.letter, "\(row.entry.notAfter)", marks.revocation, row.entry.file, row.entry.subject,
          "{\(names.all.map { Hex.encode($0) }.joined(separator: ","))}", row.certificate?.pem, row.token,
        ]
        let places = columns.indices.map { "$\(parameters.count + 1 + $0)" }
        values.append(
          "($1, \(places[0]), \(places[1]), \(places[2])::bigint, \(places[3...5].joined(separator: ", ")), "
            + "\(places[6])::text[], \(places[7]), \(places[8]))")
        parameters += columns
      }
      try session.run(
        """
        INSERT INTO sallyport_certificate
          (authority, serial, state, not_after, revocation, file, subject, names, certificate, token)
        VALUES \(values.joined(separator: ", ")) \(conflict)
        """, parameters)
    }
  }
}
