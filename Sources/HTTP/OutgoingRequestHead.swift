public import Bytes

/// A request head for an upstream, built from the incoming head. Each protocol to upstreams encodes the same value.
///
/// Why a model and not text: code that changes the head later, such as the response to an upstream's challenge, sets a
/// field and never edits text. `add`, `setMethod` and `setTarget` refuse bytes that could end a line early. The owner
/// reuses the object and its storage for each request. A forwarded field is a range of the incoming head; that head
/// must neither change nor be freed before `reset(over: nil)`.
public final class OutgoingRequestHead {
  // Exclusivity is unchecked for the same reason as in `RequestHead`.
  @exclusivity(unchecked) var fields = OutgoingFields()
  // Not retained: the caller that sets this reference clears it with `reset` before the head is freed.
  @exclusivity(unchecked) private var incoming: Unmanaged<RequestHead>?
  private var ownMethod: ByteRange?
  private var ownTarget: ByteRange?
  /// The framing of the body. `.none` means no body, and the encoder writes no framing field.
  @exclusivity(unchecked) public var framing = BodyFraming.none
  /// The value of the Upgrade field, which a 101 response must keep to; empty: no 101 is valid.
  @exclusivity(unchecked) public var upgrade: [UInt8] = []

  /// What a feature has made for a protocol in which fields don't go as they are: the parameters of a request. Empty for HTTP.
  @exclusivity(unchecked) public var parameters = ByteBuffer()

  public init() {}

  /// Clears the head, and takes method and target from `incoming`. With nil, the head belongs to no request.
  public func reset(over incoming: RequestHead?) {
    self.incoming = incoming.map { Unmanaged.passUnretained($0) }
    reset()
  }

  private func reset() {
    fields.removeAll()
    ownMethod = nil
    ownTarget = nil
    framing = .none
    if !upgrade.isEmpty { upgrade = [] }
    if !parameters.isEmpty { parameters.release() }
  }

  /// Clears everything and overwrites the storage, because it may have contained credentials.
  public func wipe() {
    fields.wipe()
    if !parameters.isEmpty { parameters.wipe() }
    reset()
  }

  /// Sets the method. Returns false, and changes nothing, when the method is not a token.
  public func setMethod(_ method: UnsafeRawBufferPointer) -> Bool {
    guard let base = method.baseAddress, method.count > 0, ByteSet.token.containsAll(base, 0, method.count) else {
      return false
    }
    ownMethod = keep(method)
    return true
  }

  /// Sets one of sallyport's own methods.
  public func setMethod(_ method: StaticString) -> Bool {
    setMethod(UnsafeRawBufferPointer(start: method.utf8Start, count: method.utf8CodeUnitCount))
  }

  /// Sets the target. Returns false, and changes nothing, when the target is empty or has an invalid byte.
  public func setTarget(_ target: UnsafeRawBufferPointer) -> Bool {
    guard let base = target.baseAddress, target.count > 0 else { return false }
    var at = ByteScan.targetEnd(base, 0, target.count)
    while at < target.count, ByteScan.byte(base, at) == 0x3F { at = ByteScan.targetEnd(base, at + 1, target.count) }
    guard at == target.count else { return false }
    ownTarget = keep(target)
    return true
  }

  private func keep(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
    defer { fields.text.append(bytes) }
    return ByteRange(start: fields.text.count, count: bytes.count)
  }

  /// The method. The pointer is valid until the head changes.
  public var method: UnsafeRawBufferPointer {
    if let ownMethod { return fields.text.readable[ownMethod] }
    return incoming?._withUnsafeGuaranteedRef { $0.bytes.readable[$0.methodRange] } ?? Self.nothing
  }
  /// The target. The pointer is valid until the head changes.
  public var target: UnsafeRawBufferPointer {
    if let ownTarget { return fields.text.readable[ownTarget] }
    return incoming?._withUnsafeGuaranteedRef { $0.bytes.readable[$0.target.raw] } ?? Self.nothing
  }

  // MARK: Fields

  /// Adds a field. Returns false, and adds nothing, when the name is not a token or the value would end its line.
  public func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool { fields.add(name, value) }

  /// Adds a field with one of sallyport's own names.
  public func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) -> Bool {
    fields.add(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value)
  }

  /// Adds fields that are the same for every request.
  public func add(_ block: FieldBlock) { fields.add(block) }

  /// Forwards a field of the incoming head.
  @inline(__always)
  public func forward(_ field: Field) { fields.forward(field) }

  /// Begins a field; `prefix` is its name, a colon and a space. The caller then appends the value to `value`.
  public func beginField(_ prefix: UnsafeRawBufferPointer) { fields.beginField(prefix) }
  /// The buffer to which the caller appends the value of the current field; the value starts at `valueStart`.
  public var value: ByteBuffer {
    _read { yield fields.text }
    _modify { yield &fields.text }
  }
  public var valueStart: Int { fields.fieldStart }
  /// Ends the current field. The caller has checked that the value contains no byte that would end its line.
  public func endField() { fields.endField() }
  /// Removes the current field.
  public func dropField() { fields.dropField() }

  /// Calls `body` with the name and the value of each field, in their order. The framing is not among them.
  public func forEachField(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
    let own = fields.text.readable, incoming = incomingBytes
    for entry in fields.entries.elements {
      let bytes = entry.isOwn ? own : incoming
      body(bytes[entry.name], bytes[entry.value])
    }
  }

  /// The number of fields, without the framing.
  public var fieldCount: Int { fields.entries.count }

  /// The bytes of the incoming head; forwarded fields are ranges of these bytes.
  var incomingBytes: UnsafeRawBufferPointer {
    incoming?._withUnsafeGuaranteedRef { $0.bytes.readable } ?? Self.nothing
  }

  private static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
