import Bytes

/// The ways in which an upstream may read a path otherwise than nginx does. Each is one word of `path_readings`.
public struct PathReadings: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// `;` and what follows it in a segment are left out (RFC 3986 §3.3): Tomcat, Jetty, Spring.
  public static let parameters = PathReadings(rawValue: 1)
  /// A backslash is a slash: IIS, and everything that opens files of Windows.
  public static let backslash = PathReadings(rawValue: 2)
  /// Letters of either case are the same: IIS, and file systems without case.
  public static let `case` = PathReadings(rawValue: 4)
  /// Dots and blanks at the end of a segment are left out: Windows; frameworks that trim a path.
  public static let dots = PathReadings(rawValue: 8)
  /// Escapes are decoded once more.
  public static let decode = PathReadings(rawValue: 16)
  /// Several slashes are one, although `merge_slashes` is off; or the empty segment between them counts for `..`.
  public static let slashes = PathReadings(rawValue: 32)
  /// Segments of dots stay as they are, or only those without escapes are resolved: Express, and routers by raw paths.
  public static let literal = PathReadings(rawValue: 64)

  public static let all: PathReadings = [.parameters, .backslash, .case, .dots, .decode, .slashes, .literal]
}

/// One path as an upstream gets it.
public enum ReadPath {
  /// As the client wrote it, with escapes.
  case raw(UnsafeRawBufferPointer)
  /// Decoded and resolved, as `$uri`.
  case decoded(UnsafeRawBufferPointer)

  var bytes: UnsafeRawBufferPointer {
    switch self {
    case .raw(let bytes), .decoded(let bytes): bytes
    }
  }
}

extension PathReadings {
  /// The readings that can give something else for this path; `case` for one with capitals. One scan of the bytes, and no
  /// allocation: most paths have none.
  public func possible(for path: ReadPath) -> PathReadings {
    let bytes = path.bytes
    guard let base = bytes.baseAddress else { return [] }
    let isRaw = if case .raw = path { true } else { false }
    var found: PathReadings = []
    var before: UInt8 = 0
    var at = 0
    while at < bytes.count {
      var byte = ByteScan.byte(base, at)
      at &+= 1
      // The letters and digits of most paths.
      if byte > 0x3B && byte < 0x80 && byte != 0x5C {
        if byte < 0x5B && byte > 0x40 { found.insert(.case) }
        before = byte
        continue
      }
      var isEscaped = false
      if byte == 0x25 {
        if isRaw, at &+ 2 <= bytes.count, let high = ASCII.hexValue(ByteScan.byte(base, at)),
          let low = ASCII.hexValue(ByteScan.byte(base, at &+ 1))
        {
          byte = high << 4 | low
          at &+= 2
          isEscaped = true
        } else if !isRaw {
          // Anything can be behind it.
          return self
        }
      }
      switch byte {
      case 0x3B: found.formUnion([.parameters, .slashes, .literal])
      case 0x5C: found.formUnion([.backslash, .slashes, .literal])
      case 0x25 where isEscaped: return self
      case 0x2F: if isEscaped || before == 0x2F { found.formUnion([.slashes, .literal]) }
      case 0x2E:
        let next = at < bytes.count ? ByteScan.byte(base, at) : 0x2F
        let mayEnd = next == 0x2F || next == 0x5C || next == 0x3B || next == 0x25
        if mayEnd { found.insert(.dots) }
        if isEscaped || mayEnd && (before == 0x2F || before == 0x2E) { found.insert(.literal) }
      case 0x41...0x5A: found.insert(.case)
      // The Kelvin sign and the long s begin with these.
      case 0xE2, 0xC5: found.insert(.case)
      case _ where Self.isBlank(byte): found.insert(.dots)
      default: break
      }
      before = byte
    }
    return found.intersection(self)
  }

  /// What some languages trim from the ends of text (JavaScript, Python, Java), a blank among it. In UTF-8 the last two
  /// follow a byte C2.
  static func isBlank(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x09...0x0D, 0x1C...0x20, 0x85, 0xA0: true
    default: false
    }
  }

  /// The bytes of all texts that readings of one path are made of. A path with more is taken for an attack.
  static let budget = 128 * 1024

  /// The other readings of a path, each once and decoded, and none of them by case. `possible`: as `possible(for:)` found
  /// them. nil: there are more than can be looked up.
  ///
  /// An upstream may do any of these steps, in this order: leave out the parameters of the raw path, decode, decode again,
  /// leave out parameters, take backslashes as slashes, leave out parameters, trim segments, resolve dots. Each choice of
  /// them is a reading.
  public func readings(of path: ReadPath, mergesSlashes: Bool) -> [[UInt8]]? {
    let source = path.bytes.isEmpty ? [0x2F] : Array(path.bytes)
    let isRaw = if case .raw = path { true } else { false }
    let once = isRaw ? Self.decoded(source) : source
    let texts = contains(.decode) ? [source, once, Self.decoded(once)] : [source, once]
    func holds(_ predicate: (UInt8) -> Bool) -> Bool { texts.contains { $0.contains(where: predicate) } }
    let hasParameters = contains(.parameters) && holds { $0 == 0x3B }
    let hasBackslash = contains(.backslash) && holds { $0 == 0x5C }
    var steps: [Step] = []
    if hasParameters && isRaw && source.contains(0x3B) && source.contains(0x25) { steps.append(.dropRawParameters) }
    if contains(.literal) && isRaw && source.contains(0x25) && holds({ $0 == 0x2E }) { steps.append(.resolveRaw) }
    if let last = texts.last, texts.count > 2, last != once { steps.append(.decode) }
    if hasParameters && hasBackslash { steps.append(.dropParametersFirst) }
    if hasBackslash { steps.append(.backslash) }
    if hasParameters { steps.append(.dropParameters) }
    if contains(.dots) && holds({ Self.isBlank($0) || $0 == 0x2E }) { steps.append(.trim) }
    var variants: Set<Variant> = [Variant(text: source)]
    /// Whether what the step makes of each text can be looked up, too.
    func take(_ step: (Variant) -> Variant) -> Bool {
      for variant in variants { variants.insert(step(variant)) }
      return variants.count * source.count <= Self.budget
    }
    for step in steps where step.isOfRaw {
      guard take({ Self.apply(step, to: $0, merges: mergesSlashes) }) else { return nil }
    }
    if isRaw { variants = Set(variants.map { Variant(text: Self.decoded($0.text), isResolved: $0.isResolved) }) }
    for step in steps where !step.isOfRaw {
      guard take({ Self.apply(step, to: $0, merges: mergesSlashes) }) else { return nil }
    }
    var found: Set<[UInt8]> = []
    func add(_ text: [UInt8]) { if text.first == 0x2F { found.insert(text) } }
    for variant in variants {
      let text = variant.text, hasDots = Self.hasDotSegment(text)
      if variant.isResolved || contains(.literal) && hasDots { add(mergesSlashes ? Self.merged(text) : text) }
      if variant.isResolved { continue }
      add(Self.resolved(text, merges: mergesSlashes))
      if contains(.slashes), !mergesSlashes || hasDots { add(Self.resolved(text, merges: !mergesSlashes)) }
    }
    return found.sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// A text on its way to a reading. `isResolved`: its dots were resolved before it was decoded, and those that came later
  /// stay.
  private struct Variant: Hashable {
    var text: [UInt8]
    var isResolved = false
  }

  private static func apply(_ step: Step, to variant: Variant, merges: Bool) -> Variant {
    var result = variant
    switch step {
    case .resolveRaw:
      result.text = resolved(variant.text, merges: merges)
      result.isResolved = true
    case .decode: result.text = decoded(variant.text)
    case .dropRawParameters, .dropParametersFirst, .dropParameters: result.text = withoutParameters(variant.text)
    case .backslash: result.text = variant.text.map { $0 == 0x5C ? 0x2F : $0 }
    case .trim: result.text = trimmed(variant.text)
    }
    return result
  }

  private enum Step {
    case dropRawParameters, resolveRaw, decode, dropParametersFirst, backslash, dropParameters, trim
    var isOfRaw: Bool { self == .dropRawParameters || self == .resolveRaw }
  }

  // MARK: Steps

  /// Decodes escapes; one that isn't valid stays.
  static func decoded(_ text: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(text.count)
    var at = 0
    while at < text.count {
      if text[at] == 0x25, at + 2 < text.count, let high = ASCII.hexValue(text[at + 1]),
        let low = ASCII.hexValue(text[at + 2])
      {
        result.append(high << 4 | low)
        at += 3
      } else {
        result.append(text[at])
        at += 1
      }
    }
    return result
  }

  static func withoutParameters(_ text: [UInt8]) -> [UInt8] {
    var isLeftOut = false
    return text.filter { byte in
      if byte == 0x2F { isLeftOut = false } else if byte == 0x3B { isLeftOut = true }
      return !isLeftOut
    }
  }

  static func merged(_ text: [UInt8]) -> [UInt8] {
    var before: UInt8 = 0
    return text.filter { byte in
      defer { before = byte }
      return byte != 0x2F || before != 0x2F
    }
  }

  /// Without dots and blanks at the end of each segment. `.` and `..` stay, also where blanks follow them.
  static func trimmed(_ text: [UInt8]) -> [UInt8] {
    Array(
      text.split(separator: 0x2F, omittingEmptySubsequences: false).map { segment -> ArraySlice<UInt8> in
        var unblank = segment
        while let last = unblank.last, isBlank(last) || last == 0xC2 && unblank.count < segment.count {
          unblank.removeLast()
        }
        if isDots(unblank) { return unblank }
        while let last = unblank.last, isBlank(last) || last == 0x2E { unblank.removeLast() }
        return unblank
      }.joined(separator: [0x2F]))
  }

  /// Resolves segments of dots. A path can't climb above the root.
  static func resolved(_ text: [UInt8], merges: Bool) -> [UInt8] {
    let segments = (merges ? merged(text) : text).split(separator: 0x2F, omittingEmptySubsequences: false)
    var kept: [ArraySlice<UInt8>] = []
    for (index, segment) in segments.enumerated() {
      let isLast = index == segments.count - 1
      switch segment.count {
      case 1 where isDots(segment): if isLast { kept.append([]) }
      case 2 where isDots(segment):
        if kept.count > 1 { kept.removeLast() }
        if isLast { kept.append([]) }
      default: kept.append(segment)
      }
    }
    return Array(kept.joined(separator: [0x2F]))
  }

  private static func hasDotSegment(_ text: [UInt8]) -> Bool {
    text.split(separator: 0x2F).contains { isDots($0) }
  }

  private static func isDots(_ segment: ArraySlice<UInt8>) -> Bool {
    (1...2).contains(segment.count) && segment.allSatisfy { $0 == 0x2E }
  }

  // MARK: Case

  /// The path in lower case, as file systems without case compare ASCII. The Kelvin sign and the long s are letters of ASCII
  /// there.
  public static func folded(_ text: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(text.count)
    var at = 0
    while at < text.count {
      let rest = text[at...]
      if rest.starts(with: [0xE2, 0x84, 0xAA]) {
        result.append(0x6B)
        at += 3
      } else if rest.starts(with: [0xC5, 0xBF]) {
        result.append(0x73)
        at += 2
      } else {
        result.append(ASCII.lower(text[at]))
        at += 1
      }
    }
    return result
  }
}
