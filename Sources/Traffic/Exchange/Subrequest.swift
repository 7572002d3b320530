public import HTTP
package import Language
import Observability
import Transport

/// The "client" of an exchange that sallyport begins itself, for another exchange: that of the main request. It counts
/// and drops the body of the response.
///
///     main exchange ─► Subrequest ◄─► exchange of the subrequest ─► proxy_pass
///
/// The subrequest has the connection, the identity and the server block of the main request, and a copy of its head.
/// Phases are those of an internal redirect, without the access phase; the rules for client certificates apply
/// (`Exchange.denies`). Error pages don't apply, because an error must not become a success. It never is a tunnel.
open class Subrequest: ClientStream {
  package final let generation: LiveGeneration
  /// The status of the final response; nil before its head.
  package final private(set) var status: UInt16?
  final private var dropped = 0
  final private var isEnding = false

  /// Bytes of a response's body that are read, so that the upstream's connection can be used again. A longer body is
  /// not read to its end: its head has decided.
  package static let bodyLimit = 64 * 1024

  public init(under main: Exchange, role: Role = .subrequest) {
    let session = main.session
    generation = main.stream?.live ?? session.live
    super.init(session, role: role)
    requestNumber = main.stream?.requestNumber ?? 0
    isPipelined = main.stream?.isPipelined ?? false
  }

  public override final var live: LiveGeneration { generation }

  /// Runs the subrequest, until it must wait or is over. `body`: what to send with it.
  package final func run(under main: Exchange, _ form: RequestHead.SubrequestForm, path: [UInt8], body: RequestBody?) {
    let exchange = main.worker.takeExchange()
    exchange.head.copy(main.head, as: form)
    // As in nginx, a request that was counted is not counted again.
    exchange.inheritStates(of: main)
    self.exchange = exchange
    // As in nginx, a mirror has the query that the main request has by now, and an `auth_request` has none.
    switch form {
    case .whole: exchange.begin(self, under: main, .whole, toPath: path, main.arguments, body)
    case .bodilessGet: exchange.begin(self, under: main, .path, toPath: path, [], body)
    }
  }

  /// The main exchange, which waits for this, ends or fails for another reason.
  open func giveUp() {}

  /// Ends the subrequest.
  package final func abandon(_ reason: EndReason) {
    guard let exchange else { return }
    if case .waiting = exchange.progress.state { exchange.setStatus(499) }
    exchange.end(reason)
  }

  /// The exchange has ended. `isWhole`: with a whole response.
  open func didEnd(isWhole: Bool) {}

  open override func subrequestWillEnd(_ exchange: Exchange, _ reason: EndReason) -> Bool {
    exchange.location.object(LoggedSubrequests.self) != nil
  }

  // MARK: The request

  /// A content handler that asks for a body gets an empty one, so that it doesn't wait. The body of a mirror is with the
  /// exchange from the start.
  public override final func resumeBody() { exchange?.requestBodyDidEnd(trailers: nil) }

  // MARK: The response

  public override final func send(head: OutgoingResponseHead) { status = head.status }

  public override final func send(body bytes: UnsafeRawBufferPointer) {
    dropped &+= bytes.count
    guard dropped > Self.bodyLimit, !isEnding else { return }
    isEnding = true
    // Not within the upstream's event.
    let box = LoopBox(self)
    loop.post { box.value.exchange?.end(.complete) }
  }

  public override final func release() {
    exchange = nil
    didEnd(isWhole: true)
  }

  public override final func cut(_ reason: EndReason) {
    exchange = nil
    didEnd(isWhole: false)
  }
}

extension Subrequest {
  /// The path that a directive names, without variables and arguments: nginx takes `$` and `?` as parts of the path, and
  /// finds no location.
  package static func path(_ line: Directive, _ builder: inout SettingsBuilder) -> [UInt8]? {
    let text = line.text(0)
    guard text.hasPrefix("/"), !text.contains("$"), !text.contains("?") else {
      builder.error(
        line.place(0), "invalid path \"\(text)\" in \"\(line.name)\" directive",
        hint: "the path of a location of this server, such as /auth, without variables and arguments; or off")
      return nil
    }
    return Array(text.utf8)
  }
}

/// What a location has whose subrequests are logged.
final class LoggedSubrequests {}
