/// Values of MurmurHash2 with seed 0, from another implementation (Python).
enum MurmurVectors {
  static let all: [(text: String, hash: UInt32)] = [
    ("", 0x00000000),
    ("a", 0x92685f5e),
    ("ab", 0x1aa14063),
    ("abc", 0x13577c9b),
    ("abcd", 0x26873021),
    ("abcde", 0x5f09a8de),
    ("192.0.2.1AAA", 0xcd5e5fff),
    ("the quick brown fox", 0xb3528f7c),
  ]
}
