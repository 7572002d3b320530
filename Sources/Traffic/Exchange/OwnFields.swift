import Bytes
package import HTTP
package import Observability

/// The Server and Date fields. Every response has them, unless the proxy forwards the upstream's own fields.
/// Each worker has one instance. The worker builds the fields once a second, and each response copies them.
package final class OwnFields {
  private let clock: ClockText
  private var seconds = Int64.min
  private var date = FieldBlock([])
  /// Server and Date: `short` with `server_tokens` off, `long` with it on.
  private var short = FieldBlock([])
  private var long = FieldBlock([])

  private static let name = FieldBlock("Server", Product.name)
  private static let nameAndVersion = FieldBlock("Server", Product.nameAndVersion)

  package init(_ clock: ClockText) { self.clock = clock }

  /// Adds both fields. `tokens` is the value of `server_tokens`.
  package func add(tokens: Bool, to outgoing: OutgoingResponseHead) {
    update()
    borrowing(tokens ? long : short) { outgoing.add($0) }
  }

  package func addServer(tokens: Bool, to outgoing: OutgoingResponseHead) {
    outgoing.add(tokens ? Self.nameAndVersion : Self.name)
  }

  package func addDate(to outgoing: OutgoingResponseHead) {
    update()
    outgoing.add(date)
  }

  @inline(__always)
  private func update() {
    clock.update()
    if clock.seconds != seconds { make() }
  }

  @inline(never)
  private func make() {
    seconds = clock.seconds
    let line = (name: Array("Date".utf8), value: Array(clock.httpDate))
    date = FieldBlock([line])
    short = FieldBlock([line], after: Self.name)
    long = FieldBlock([line], after: Self.nameAndVersion)
  }
}
