/// Runs `body` with an object without touching its reference count.
///
/// For calls on the hot path, where the counts were a tenth of a request's instructions. The caller must know that other
/// storage keeps the object for the whole call, whatever the call does.
@inlinable @inline(__always)
public func borrowing<Object: AnyObject, Value>(_ object: Object, _ body: (Object) -> Value) -> Value {
  Unmanaged.passUnretained(object)._withUnsafeGuaranteedRef { body($0) }
}
