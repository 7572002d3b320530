import Crypto
import Patterns
import Traffic

extension [RewriteStep] {
  /// Each step as it is written, in the order in which `RewriteProgram` has the steps.
  /// `names`: those of variables by slot.
  package func flatWords(_ names: [Int: String]) -> [String] {
    flatMap { step in
      switch step {
      case .set(let slot, let value): ["set $\(names[slot] ?? "\(slot + 1)") \"\(value.text(names))\""]
      case .setArguments(let value): ["set $args \"\(value.text(names))\""]
      case .return(let settings): ["return \(settings.words(names))"]
      case .rewrite(let rule): ["rewrite \(rule.pattern.pattern) \(rule.path.text(names))\(rule.flag.words)"]
      case .break: ["break"]
      case .if(let block): ["if (\(block.words(names)))"] + block.steps.flatWords(names)
      }
    }
  }
}

extension ReturnSettings {
  fileprivate func words(_ names: [Int: String]) -> String {
    switch content {
    case .standard: "\(status)"
    case .redirect(let target), .text(let target): "\(status) \"\(target.text(names))\""
    }
  }
}

extension RewriteRule.Flag {
  fileprivate var words: String {
    switch self {
    case .none: ""
    case .last: " last"
    case .break: " break"
    case .redirect(let status): status == 301 ? " permanent" : " redirect"
    }
  }
}

extension ConditionSettings {
  func words(_ names: [Int: String]) -> String {
    switch condition {
    case .isSet(let value): "\(isNegated ? "!" : "")\(value.text(names))"
    case .equals(let one, let other): "\(one.text(names)) \(isNegated ? "!=" : "=") \(other.text(names))"
    case .matches(let value, let pattern, _): "\(value.text(names)) \(isNegated ? "!~" : "~") \(pattern.pattern)"
    case .file(let path, let test): "\(isNegated ? "!" : "")\(test) \(path.text(names))"
    }
  }
}
