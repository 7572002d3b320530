import Bytes
import Files
import Forward
import HTTP
import Observability
import Traffic
import Transport

/// The files of a location that has no other content.
final class FileContent: LiveContent {
  override func handler(for worker: Worker) -> ContentHandler? { FileHandler() }

  override func explained(_ exchange: Exchange) -> String? {
    guard let files = exchange.location.files else { return nil }
    var path = ByteBuffer()
    files.appendFile(exchange, to: &path)
    return "the file \(path.readable.text), or the index of that folder"
  }
}

/// Serves one file, as nginx's index and static modules do. A pool thread opens and reads it.
///
/// Memory: one slice of the file, which a thread reads when the client has taken the one before it. While the worker's
/// responses take much memory, a slice is small. Each slice opens the file anew, so a client that reads slowly holds no
/// file; if the file has changed since, the response ends incomplete.
final class FileHandler: ContentHandler {
  // Not retained: the exchange owns its handler.
  private unowned(unsafe) var exchange: Exchange?
  private var path: ServedPath?
  private var facts: FileFacts?
  private var body = FileBody()
  private var isReading = false

  /// The largest file that is served.
  static let sizeLimit: UInt64 = 1 << 20
  private static let sliceSize = 131_072
  /// While as many bytes wait for the client, nothing is read: the size of a small slice.
  private static let watermark = BodyMemoryBudget.smallAllowance

  /// Of a file only: an error page can repeat what the client sent.
  override var mayReflect: Bool { facts == nil }

  override func start(_ exchange: Exchange) {
    self.exchange = exchange
    guard let files = exchange.location.files else { return exchange.fail(ErrorResponse(404)) }
    guard [.get, .head, .post].contains(FileRequest.method(exchange)) else { return exchange.fail(ErrorResponse(405)) }
    let uri = Array(exchange.target.uri.readable)
    if uri.last == 0x2F { return IndexSearch.begin(uri, files, exchange) }
    switch files.path(of: uri, exchange) {
    case .failure(let failure): exchange.fail(failure)
    case .success(let path):
      open(path, files, exchange)
    }
  }

  private func open(_ path: ServedPath, _ files: LiveFiles, _ exchange: Exchange) {
    let method = FileRequest.method(exchange)
    let isWhole = method == .get && !exchange.head.present.contains(.range)
    let share = BodyMemoryShare(of: exchange.worker.responses, wanted: isWhole ? Self.sliceSize : 0)
    let count = share.count
    let variant = method == .post ? nil : files.hooks.variant
    let use = variant?.use(for: exchange) ?? .ignored
    let other = use == .ignored ? nil : variant.flatMap { path.followed(by: $0.suffix) }
    FileRequest.run(exchange, { FileChoice.read(path, or: other, use, count: count) }) {
      [self, share] exchange, found in
      if let fault = found.otherFault, let other { FileRequest.tell(of: fault, at: other, exchange) }
      let path = found.isOther ? other ?? path : path
      switch found.result {
      case .failure(let fault): FileRequest.fail(exchange, files, path, fault)
      case .success(let (facts, bytes)):
        self.path = path
        didOpen(path, facts, bytes, files, exchange, found)
      }
      withExtendedLifetime(share) {}
    }
  }

  private func didOpen(
    _ path: ServedPath, _ facts: FileFacts, _ bytes: [UInt8], _ files: LiveFiles, _ exchange: Exchange,
    _ found: FileChoice.Found
  ) {
    switch facts.kind {
    case .folder: return exchange.redirectToSlash()
    case .other:
      exchange.log(.crit, "\"\(LogEscape.text(path.text))\" is not a regular file")
      return exchange.fail(ErrorResponse(404))
    case .regular: break
    }
    if FileRequest.method(exchange) == .post { return exchange.fail(ErrorResponse(405)) }
    guard facts.size <= Self.sizeLimit else {
      exchange.log(
        .error,
        "\"\(LogEscape.text(path.text))\" has \(facts.size) bytes: sallyport serves files of at most 1 MiB; put a file server behind proxy_pass"
      )
      return exchange.fail(ErrorResponse(403))
    }
    guard let body = FileResponse(files, facts, exchange, found).begin() else { return }
    self.facts = facts
    self.body = body
    // With a range, or without a body, nothing was read yet.
    exchange.sendHead()
    if case .file(let range)? = body.next, range.lowerBound == 0 { send(bytes) } else { pump() }
  }

  // MARK: The body

  private func pump() {
    while let exchange, !isReading {
      switch body.next {
      case nil: return exchange.complete()
      case .text(let text):
        body.didSend(text.count)
        text.withUnsafeBytes { exchange.sendBody($0) }
      case .file(let range):
        guard exchange.waitingBytes >= Self.watermark else { return read(range, exchange) }
        exchange.stream?.watchSending(exchange.location.limits.sendTimeout)
        return
      }
    }
  }

  /// Sends bytes of the next piece, if it is of the file, and goes on.
  private func send(_ bytes: [UInt8]) {
    if let exchange, case .file(let range)? = body.next, !bytes.isEmpty {
      let sent = bytes.prefix(range.count)
      body.didSend(sent.count)
      sent.withUnsafeBytes { exchange.sendBody($0) }
    }
    pump()
  }

  private func read(_ range: Range<UInt64>, _ exchange: Exchange) {
    guard let path, let facts, !range.isEmpty else {
      body.didSend(0)
      return exchange.end(.upstreamBroke)
    }
    isReading = true
    let share = BodyMemoryShare(of: exchange.worker.responses, wanted: min(range.count, Self.sliceSize))
    let count = share.count
    FileRequest.run(
      exchange, { ServedFile.read(path, from: range.lowerBound, count: count, expecting: facts) }
    ) { [self, share] exchange, result in
      isReading = false
      switch result {
      case .success(let (_, bytes)) where !bytes.isEmpty:
        send(bytes)
      case .success: exchange.end(.upstreamBroke)
      case .failure(let fault):
        exchange.log(.error, "\(fault.description(of: LogEscape.text(path.text))) while sending to client")
        exchange.end(.upstreamBroke)
      }
      withExtendedLifetime(share) {}
    }
  }

  override func clientDidDrain() { pump() }

  override func cancel() { exchange = nil }

  override func recycle() {
    exchange = nil
    body = FileBody()
  }
}

/// What the parts of file serving share.
enum FileRequest {
  /// The method, as an error page has it: a GET, unless the client asked by HEAD.
  static func method(_ exchange: Exchange) -> Method {
    exchange.redirection.keepsBody || exchange.head.method == .head ? exchange.head.method : .get
  }

  /// Does `work` on a pool thread, and then goes on, unless the exchange has ended meanwhile.
  static func run<Value: Sendable>(
    _ exchange: Exchange, _ work: @escaping @Sendable () -> Value, _ then: @escaping (Exchange, Value) -> Void
  ) {
    PendingWork.run(.files, for: exchange, work, then)
  }

  /// Responds to a request whose file can't be opened, with nginx's statuses.
  static func fail(_ exchange: Exchange, _ files: LiveFiles, _ path: ServedPath, _ fault: FileFault) {
    if fault.isAbsence {
      if files.settings.logsAbsence { exchange.log(.error, fault.description(of: LogEscape.text(path.text))) }
      return exchange.fail(ErrorResponse(404))
    }
    tell(of: fault, at: path, exchange)
    exchange.fail(ErrorResponse(fault.isRefusal ? 403 : 500))
  }

  /// Says in the error log why a file that is there can't be opened.
  static func tell(of fault: FileFault, at path: ServedPath, _ exchange: Exchange) {
    let text = fault.description(of: LogEscape.text(path.text))
    if fault.isRefusal { exchange.log(.error, text) } else { exchange.tellOfRepeated(.crit, text) }
  }
}
