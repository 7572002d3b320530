/// What a feature keeps of one request or session. The objects stay with their exchange, which serves one request after
/// another.
open class FeatureState {
  public required init() {}

  /// A request ends: the client's stream may need something longer than the exchange does.
  open func end(_ stream: ClientStream) {}

  /// A subrequest begins. `main`: what the feature keeps of the request that it belongs to.
  open func inherit(_ main: FeatureState) {}

  /// Forgets the request.
  open func reset() {}
}

/// The states of all features that have one of this request.
package struct FeatureStates {
  private var all: [(state: FeatureState, isUsed: Bool)] = []
  private var areAnyUsed = false

  /// The state of a feature; nil if it keeps nothing of this request.
  @inline(__always)
  package func known<State: FeatureState>(_ kind: State.Type) -> State? { areAnyUsed ? find(kind) : nil }

  @inline(never)
  private func find<State: FeatureState>(_ kind: State.Type) -> State? {
    for each in all where each.isUsed && type(of: each.state) == kind {
      return unsafeDowncast(each.state, to: State.self)
    }
    return nil
  }

  /// The state of a feature, which is new if it keeps nothing of this request yet.
  @inline(never)
  package mutating func use<State: FeatureState>(_ kind: State.Type) -> State {
    areAnyUsed = true
    for index in all.indices where type(of: all[index].state) == kind {
      all[index].isUsed = true
      return unsafeDowncast(all[index].state, to: State.self)
    }
    let state = kind.init()
    all.append((state, true))
    return state
  }

  /// Has the subrequest's states begin with what the main request's say.
  package mutating func inherit(_ main: borrowing FeatureStates) {
    guard main.areAnyUsed else { return }
    for each in main.all where each.isUsed { use(type(of: each.state)).inherit(each.state) }
  }

  @inline(__always)
  package func end(_ stream: ClientStream) { if areAnyUsed { endAll(stream) } }

  @inline(never)
  private func endAll(_ stream: ClientStream) { for each in all where each.isUsed { each.state.end(stream) } }

  /// At the end of every exchange.
  @inline(__always)
  package mutating func reset() { if areAnyUsed { clear() } }

  @inline(never)
  private mutating func clear() {
    areAnyUsed = false
    for index in all.indices where all[index].isUsed {
      all[index].state.reset()
      all[index].isUsed = false
    }
  }
}
