public import Bytes

extension RequestHead {
  /// The form in which a subrequest takes over the head of the main request.
  public enum SubrequestForm: Sendable {
    /// A GET without a body: what asks about a request.
    case bodilessGet
    /// The method and the framing of the main request: what repeats a request.
    case whole
  }

  /// Becomes a copy of another head, so that a subrequest can outlive its main request. The fields and the target are
  /// the client's. A subrequest expects no 100, takes no trailers, and can't become a tunnel.
  public func copy(_ main: RequestHead, as form: SubrequestForm) {
    storage.reset()
    storage.buffer.append(main.storage.buffer.readable)
    for field in main.fields { storage.list.append(field) }
    storage.present = main.storage.present
    parsed = main.parsed
    parsed.expectsContinue = false
    parsed.acceptsTrailers = false
    parsed.isExtendedConnect = false
    parsed.upgrade = nil
    guard case .bodilessGet = form else { return }
    parsed.shownMethod = main.shownMethodRange
    parsed.method = .get
    parsed.methodRange = ByteRange(start: storage.buffer.count, count: 3)
    parsed.framing = .none
    storage.buffer.append("GET")
  }

  /// The method for `$request_method` and `$request`: in a subrequest, that of the main request, as in nginx.
  public var shownMethodRange: ByteRange { parsed.shownMethod ?? parsed.methodRange }
}
