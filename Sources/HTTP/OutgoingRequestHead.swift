public import Bytes

/// A request head as it goes to an upstream, built from the head that came in; HTTP/1.1 and HTTP/2 encode the same value.
///
/// Why a value: whoever changes it afterwards, as an answer to an upstream's challenge does, sets a field, and never edits
/// text. Nothing is in it that could end a line early: `add`, `setMethod` and `setTarget` refuse such bytes. It is used
/// again from request to request and keeps its storage. A forwarded field is a range of the incoming head, which must
/// neither change nor go in between: `reset(over: nil)` takes it back.
public final class OutgoingRequestHead {
  // Unchecked for the reason that `RequestHead` has.
  @exclusivity(unchecked) var fields = OutgoingFields()
  // Uncounted: whoever sets it takes it back (`reset`) before it goes.
  @exclusivity(unchecked) private var incoming: Unmanaged<RequestHead>?
  private var ownMethod: ByteRange?
  private var ownTarget: ByteRange?
  /// How its body is framed; `.none` for no body, of which nothing is said.
  @exclusivity(unchecked) public var framing = BodyFraming.none
  /// It has an Upgrade: an answer of 101 is an answer to it.
  @exclusivity(unchecked) public var asksForUpgrade = false

  public init() {}

  /// Forgets what was set; method and target are again those of the incoming head. nil: of no request.
  public func reset(over incoming: RequestHead?) {
    self.incoming = incoming.map { Unmanaged.passUnretained($0) }
    reset()
  }

  private func reset() {
    fields.removeAll()
    ownMethod = nil
    ownTarget = nil
    framing = .none
    asksForUpgrade = false
  }

  /// Forgets all, and overwrites its storage: credentials may have been in it.
  public func wipe() {
    fields.wipe()
    reset()
  }

  /// False, and nothing changed, when the method is no token.
  public func setMethod(_ method: UnsafeRawBufferPointer) -> Bool {
    guard let base = method.baseAddress, method.count > 0, ByteSet.token.containsAll(base, 0, method.count) else {
      return false
    }
    ownMethod = keep(method)
    return true
  }

  /// The same with a method of ours.
  public func setMethod(_ method: StaticString) -> Bool {
    setMethod(UnsafeRawBufferPointer(start: method.utf8Start, count: method.utf8CodeUnitCount))
  }

  /// False, and nothing changed, when the target is empty or has a byte that a request line can't carry.
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

  /// Valid until the head changes.
  public var method: UnsafeRawBufferPointer {
    if let ownMethod { return fields.text.readable[ownMethod] }
    return incoming?._withUnsafeGuaranteedRef { $0.bytes.readable[$0.methodRange] } ?? Self.nothing
  }
  /// Valid until the head changes.
  public var target: UnsafeRawBufferPointer {
    if let ownTarget { return fields.text.readable[ownTarget] }
    return incoming?._withUnsafeGuaranteedRef { $0.bytes.readable[$0.target.raw] } ?? Self.nothing
  }

  // MARK: Fields

  /// False, and nothing added, when the name is no token or the value would end its line.
  public func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool { fields.add(name, value) }

  /// The same with a name of ours.
  public func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) -> Bool {
    fields.add(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value)
  }

  /// Adds fields that are the same for every request.
  public func add(_ block: FieldBlock) { fields.add(block) }

  /// Takes over a field of the incoming head.
  @inline(__always)
  public func forward(_ field: Field) { fields.forward(field) }

  /// Begins a field whose value is then appended to `value`; `prefix` is its name, a colon and a space.
  public func beginField(_ prefix: UnsafeRawBufferPointer) { fields.beginField(prefix) }
  /// Where the value of the field that was begun is written: from `valueStart` on, at the end.
  public var value: ByteBuffer {
    _read { yield fields.text }
    _modify { yield &fields.text }
  }
  public var valueStart: Int { fields.fieldStart }
  /// Ends the field that was begun. Its value has no byte that would end its line: the caller has seen to that.
  public func endField() { fields.endField() }
  /// Takes back the field that was begun.
  public func dropField() { fields.dropField() }

  /// The bytes that forwarded fields are ranges of.
  var incomingBytes: UnsafeRawBufferPointer {
    incoming?._withUnsafeGuaranteedRef { $0.bytes.readable } ?? Self.nothing
  }

  private static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
