import Crypto
import Observability
import Patterns
import Traffic

/// What the rewrite directives of a level mean for who gets to its content.
extension Rewrite {
  var ways: LocationWays {
    var ways = LocationWays()
    Self.add(steps[...], to: &ways, under: nil)
    return ways
  }

  /// Adds steps in order, until one ends the phase for every request. Returns whether one does. `condition`: that of the
  /// `if` around them.
  @discardableResult
  private static func add(
    _ steps: ArraySlice<RewriteStep>, to ways: inout LocationWays, under condition: AccessCondition?
  ) -> Bool {
    for step in steps {
      switch step {
      case .set, .setArguments: continue
      case .break: return true
      case .return(let settings):
        let words = "return \(settings.status)"
        if (400..<600).contains(settings.status), let condition {
          ways.conditions.append(condition.inverted("not (\(condition.words)), which gets \(settings.status)"))
        } else {
          ways.responses.append(EarlyResponse(status: settings.status, words, if: condition))
          if condition == nil { ways.endsEarly = true }
        }
        return true
      case .rewrite(let rule):
        let matchesAll = ofEachPath.contains(rule.pattern.pattern)
        let matches =
          matchesAll
          ? condition
          : AccessCondition(
            asking: .variable, .rewrite,
            condition.map { "\($0.words) and a path" } ?? "a path by ~ \(rule.pattern.pattern)")
        switch rule.flag {
        case .redirect(let status):
          ways.responses.append(EarlyResponse(status: status, "rewrite \(rule.pattern.pattern)", if: matches))
          if matches == nil { ways.endsEarly = true }
        case .none, .last:
          // A path as it is written needs no condition: whoever gets there could have asked for it.
          ways.leads.append(
            RequestLead(
              .rewrite, to: .path(rule.path), "rewrite \(rule.pattern.pattern)", if: matchesAll ? condition : nil))
          if matches == nil { ways.endsEarly = true }
        case .break: ways.sentPaths.append(rule.path)
        }
        if matchesAll, rule.flag != .none { return true }
      case .if(let block):
        let holds = block.accessCondition(under: condition)
        if let location = block.location {
          ways.leads.append(RequestLead(.rewrite, to: .block(location), holds.words, at: location.location, if: holds))
        }
        add(block.steps[...], to: &ways, under: holds)
      }
    }
    return false
  }
}

extension ConditionSettings {
  /// Admits the requests for which this holds. `outer`: the condition around it, which holds too.
  fileprivate func accessCondition(under outer: AccessCondition?) -> AccessCondition {
    let inner = "if (\(words([:])))"
    return AccessCondition(.variable, .rewrite, outer.map { "\($0.words) and \(inner)" } ?? inner) { [self] trial in
      let answer = holds(for: trial).map { $0 != isNegated }
      switch (outer?.answer(to: trial) ?? .admits, answer) {
      case (.refuses, _), (_, false?): return .refuses
      case (.admits, true?): return .admits
      default: return .unknown
      }
    }
  }

  /// Whether the condition without its `!` holds; nil: the configuration can't say it.
  private func holds(for trial: AccessSubject) -> Bool? {
    switch condition {
    case .isSet(let template): return trial.value(of: template).map { !$0.isEmpty && $0 != "0" }
    case .equals(let template, let other):
      guard let value = trial.value(of: template), let constant = other.constant else { return nil }
      return Array(value.utf8) == constant
    case .matches(let template, let pattern, _):
      guard let value = trial.value(of: template) else { return nil }
      var captures = Captures()
      return switch Array(value.utf8).withUnsafeBytes({ pattern.match($0, scratch: trial.scratch, into: &captures) }) {
      case .match: true
      case .noMatch: false
      case .limit: nil
      }
    case .file: return nil
    }
  }
}

extension AccessSubject {
  /// The value of a template that is one variable which the trial knows; nil: another one.
  fileprivate func value(of template: Template) -> String? {
    guard template.parts.count == 1, case .variable(let variable)? = template.parts.first else { return nil }
    switch variable {
    case .simple, .feature: break
    default: return nil
    }
    return switch variable.name {
    case "ssl_client_verify": verification
    case "request_method": method
    case "scheme": isTLS ? "https" : "http"
    case "https": isTLS ? "on" : ""
    default: nil
    }
  }
}

extension AccessCondition {
  /// Admits whom this refuses.
  fileprivate func inverted(_ words: String) -> AccessCondition {
    AccessCondition(kind, phase, words, at: place) { [self] trial in
      switch answer(to: trial) {
      case .admits, .silent: .refuses
      case .refuses: .admits
      case .unknown: .unknown
      }
    }
  }
}
