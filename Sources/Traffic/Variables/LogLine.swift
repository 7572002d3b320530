package import Bytes
import Observability

/// A `log_format` as a worker writes it.
///
/// Text, and values that stay the same for a connection, are one run where they follow each other. A connection escapes a
/// run at its first line (`ConnectionFacts`), and copies it into every other line.
package final class LogLine {
  package struct Step {
    /// Text that comes first.
    package var text: ByteRange
    package var value: Value
  }

  package enum Value {
    case nothing
    /// An index into `runs`.
    case run(Int)
    /// Of the request, and never to be escaped (`CompiledTemplate.Step.plain`).
    case plain(SimpleVariable)
    case other(CompiledTemplate.Step)
  }

  package let format: CompiledTemplate
  package let escaping: LogEscaping
  package let steps: [Step]
  /// Each has text and values of the connection only.
  private let runs: [[CompiledTemplate.Step]]

  package init(_ format: Template, _ escaping: LogEscaping) {
    let format = format.compiled
    var steps: [Step] = []
    var runs: [[CompiledTemplate.Step]] = []
    let none = ByteRange(start: 0, count: 0)
    var text = none
    for step in format.allSteps {
      if case .run? = steps.last?.value {
        switch step {
        case .literal, .connection:
          runs[runs.count - 1].append(step)
          continue
        case .client, .simple, .plain, .feature, .other: break
        }
      }
      switch step {
      case .literal(let literal):
        if text.count > 0 { steps.append(Step(text: text, value: .nothing)) }
        text = literal
      case .connection:
        steps.append(Step(text: none, value: .run(runs.count)))
        runs.append([.literal(text), step])
        text = none
      case .plain(let variable):
        steps.append(Step(text: text, value: .plain(variable)))
        text = none
      case .client, .simple, .feature, .other:
        steps.append(Step(text: text, value: .other(step)))
        text = none
      }
    }
    if text.count > 0 { steps.append(Step(text: text, value: .nothing)) }
    self.format = format
    self.escaping = escaping
    self.steps = steps
    self.runs = runs
  }

  var runCount: Int { runs.count }

  /// Appends the line of an exchange.
  package func append(_ exchange: Exchange, to output: inout ByteBuffer) { line(of: exchange, to: &output) }
  package func append(_ session: StreamSession, to output: inout ByteBuffer) { line(of: session, to: &output) }

  @inline(__always)
  private func line<Subject: Transaction>(of subject: Subject, to output: inout ByteBuffer) {
    for step in steps {
      format.append(step.text, to: &output)
      let start = output.count
      switch step.value {
      case .nothing: break
      case .run(let run): borrowing(subject.facts) { $0.append(run: run, of: self, to: &output) }
      case .plain(let variable):
        subject.append(own: variable, to: &output)
        if variable == .status, subject.statusSoFar == 0, case .json = escaping { mendNumber(start, in: &output) }
        finish(start, in: &output, isPlain: true)
      case .other(let step):
        format.value(of: step, subject, to: &output)
        finish(start, in: &output, isPlain: false)
      }
    }
  }

  /// Writes the status 000 as 0 where no quotation mark stands before it, because JSON has no leading zeros.
  private func mendNumber(_ start: Int, in line: inout ByteBuffer) {
    guard start > 0, line.readable[start - 1] != 0x22 else { return }
    line.truncate(to: start)
    line.append(0x30)
  }

  /// Appends a run as it stands in a line.
  func append(run: Int, of facts: ConnectionFacts, to line: inout ByteBuffer) {
    for step in runs[run] {
      switch step {
      case .connection(let variable, let place):
        let start = line.count
        finish(start, in: &line, isPlain: facts.append(variable, place: place, to: &line))
      case .literal(let text): format.append(text, to: &line)
      case .client, .simple, .plain, .feature, .other: break
      }
    }
  }

  /// Escapes the value of a variable, which stands in `line` from `start` on. An empty value becomes `-` by nginx's
  /// default escaping. A value is copied and written again only if one of its bytes must be escaped.
  @inline(__always)
  private func finish(_ start: Int, in line: inout ByteBuffer, isPlain: Bool) {
    if line.count == start {
      if case .default = escaping { line.append(0x2D) }
    } else if !isPlain {
      let value = UnsafeRawBufferPointer(rebasing: line.readable[start...])
      switch escaping {
      case .default: if !LogEscape.isPlain(value) { escape(start, in: &line) }
      case .json: if !LogEscape.isPlainJSON(value) { escape(start, in: &line) }
      case .none: break
      }
    }
  }

  @inline(never)
  private func escape(_ start: Int, in line: inout ByteBuffer) {
    var value = ByteBuffer()
    value.append(UnsafeRawBufferPointer(rebasing: line.readable[start...]))
    line.truncate(to: start)
    if case .json = escaping { LogEscape.json(value.readable, &line) } else { LogEscape.default(value.readable, &line) }
  }
}

extension ConnectionFacts {
  /// Appends a run of the access log's line. It is escaped at its first use only, unless lines of another log come between.
  package func append(run: Int, of line: LogLine, to output: inout ByteBuffer) {
    if lines.line !== line {
      lines.line = line
      lines.text.removeAll()
      lines.ranges = Array(repeating: nil, count: line.runCount)
    }
    if let range = lines.ranges[run] { return output.append(lines.text.readable[range]) }
    let start = output.count
    line.append(run: run, of: self, to: &output)
    lines.ranges[run] = ByteRange(start: lines.text.count, count: output.count - start)
    lines.text.append(UnsafeRawBufferPointer(rebasing: output.readable[start...]))
  }
}

/// `log_format escape=`.
public enum LogEscaping: String, Sendable, Hashable { case `default`, json, none }
