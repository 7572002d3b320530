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
/// Memory: one slice of the file, however large that is. A thread reads it when the client has taken the one before it. While
/// the worker's responses take much memory, a slice is small. Each slice opens the file anew, so a client that reads slowly
/// holds no file; if the file has changed since, the response ends incomplete.
final class FileHandler: ContentHandler {
  // Not retained: the exchange owns its handler.
  private unowned(unsafe) var exchange: Exchange?
  private var path: ServedPath?
  private var facts: FileFacts?
  private var body = FileBody()
  private var isReading = false

  /// Bytes of the first slice, which is all of most files, and of further ones.
  private static let firstSlice = 131_072
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
    let share = BodyMemoryShare(of: exchange.worker.responses, wanted: isWhole ? Self.firstSlice : 0)
    let count = share.count
    let variant = method == .post ? nil : files.hooks.variant
    let use = variant?.use(for: exchange) ?? .ignored
    let other = use == .ignored ? nil : variant.flatMap { path.followed(by: $0.suffix) }
    FileRequest.run(exchange, { FileChoice.read(path, or: other, use, count: count) }) {
      [self, share] exchange, found in
      if let fault = found.otherFault, let other { FileRequest.tell(of: fault, at: other, exchange) }
      let path = found.isOther ? other ?? path : path
      switch found.result {
      case .failure(let fault): FileRequest.fail(exchange, path, fault, tellsAbsence: files.settings.logsAbsence)
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
    guard let body = FileResponse(files, facts, exchange, found).begin() else { return }
    self.facts = facts
    self.body = body
    // With a range, or without a body, nothing was read yet.
    exchange.sendHead()
    if case .file(let range)? = body.next, range.lowerBound == 0 { bytes.withUnsafeBytes { send($0) } }
    pump()
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

  /// Sends bytes of the next piece, if it is of the file.
  private func send(_ bytes: UnsafeRawBufferPointer) {
    guard let exchange, case .file(let range)? = body.next, !bytes.isEmpty else { return }
    let sent = bytes.prefix(range.count)
    body.didSend(sent.count)
    exchange.sendBody(UnsafeRawBufferPointer(rebasing: sent))
  }

  private func read(_ range: Range<UInt64>, _ exchange: Exchange) {
    guard let path, let facts, !range.isEmpty else {
      body.didSend(0)
      return exchange.end(.upstreamBroke)
    }
    isReading = true
    let share = BodyMemoryShare(of: exchange.worker.responses, wanted: min(range.count, FileBuffers.slice))
    let count = share.count
    let buffers = exchange.worker[FileBuffers.self], buffer = buffers.take(count)
    FileRequest.run(
      exchange,
      { ServedFile.read(path, from: range.lowerBound, count: count, into: buffer, continuing: facts) }
    ) { [self, share] exchange, fault in
      isReading = false
      if let fault {
        exchange.log(.error, "\(fault.description(of: LogEscape.text(path.text))) while sending to client")
      }
      guard fault == nil, !buffer.bytes.isEmpty else { return exchange.end(.upstreamBroke) }
      send(buffer.bytes)
      buffers.giveBack(buffer)
      withExtendedLifetime(share) {}
      pump()
    }
  }

  override func clientDidDrain() { pump() }

  override func cancel() { exchange = nil }

  override func recycle() {
    exchange = nil
    body = FileBody()
  }
}
