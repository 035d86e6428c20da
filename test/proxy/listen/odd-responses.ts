/** Usual and unusual responses of suppliers, which both lanes must read alike. */
interface Case {
  answer: string
  closes?: boolean
  /** The connection is used for the next request, too. */
  keeps?: boolean
  /** It breaks off after a part of its body. */
  breaks?: boolean
}

export const answers: Record<string, Case> = {
  'a length': {
    answer: 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-One: a\r\n\r\nbody',
    keeps: true,
  },
  'a reason of its own': {
    answer: 'HTTP/1.1 200 Fine, thanks\r\nContent-Length: 0\r\n\r\n',
    keeps: true,
  },
  'no reason': { answer: 'HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok' },
  'an unknown status': { answer: 'HTTP/1.1 799 Odd\r\nContent-Length: 2\r\n\r\nok' },
  chunks: {
    answer:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\n',
    keeps: true,
  },
  'chunks with extensions and trailers': {
    answer:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n',
    keeps: true,
  },
  'a trailer of 8 kB': {
    answer: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: ${'1'.repeat(8192)}\r\n\r\n`,
  },
  'trailers of 70 kB': {
    answer: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n${`X-Sum: ${'1'.repeat(993)}\r\n`.repeat(70)}\r\n`,
    breaks: true,
  },
  'a length as a trailer': {
    answer:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n',
    breaks: true,
  },
  'a wrong length as a trailer': {
    answer:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n',
    breaks: true,
  },
  'a coding as a trailer': {
    answer:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n',
    breaks: true,
  },
  'a body until the end': { answer: 'HTTP/1.1 200 OK\r\n\r\nuntil the end', closes: true },
  'HTTP/1.0': { answer: 'HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold', closes: true },
  'interim answers': {
    answer:
      'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
    keeps: true,
  },
  'an uninvited 100 Continue': {
    answer:
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100\r\nX-A: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
    keeps: true,
  },
  'an interim answer that says close': {
    answer:
      'HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
    keeps: true,
  },
  'no content': { answer: 'HTTP/1.1 204 No Content\r\nX-Why: none\r\n\r\n', keeps: true },
  'no content with a length of nothing': {
    answer: 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n',
    keeps: true,
  },
  'not modified': { answer: 'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n', keeps: true },
  'a redirect': {
    answer: 'HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n',
    keeps: true,
  },
  'an error': { answer: 'HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops', keeps: true },
  'a close that is said': {
    answer: 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok',
    closes: true,
  },
  'headers named by Connection': {
    answer:
      'HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nContent-Length: 2\r\n\r\nok',
  },
  'blanks around values, and none': {
    answer: 'HTTP/1.1 200 OK\r\nX-A: \t a b \t\r\nX-B:\r\nContent-Length:2\r\n\r\nok',
  },
  'bytes beyond ASCII': {
    answer: 'HTTP/1.1 200 OK\r\nX-Name: caf\xe9\r\nContent-Length: 2\r\n\r\n\xff\x00',
  },
  'a server about to close': {
    answer: 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok',
  },
  // What is no answer.
  garbage: { answer: 'SSH-2.0-OpenSSH\r\n' },
  'an interim answer with two lengths': {
    answer:
      'HTTP/1.1 100 Continue\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
  },
  'a blank line behind an interim answer': {
    answer: 'HTTP/1.1 100 Continue\r\n\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
  },
  'chunks in HTTP/1.0 behind an interim answer': {
    answer:
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    closes: true,
  },
  'another protocol behind an interim answer': {
    answer: 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n',
  },
  'two lengths': { answer: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk' },
  'a length beside chunks': {
    answer:
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  },
  'a negative length': { answer: 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok' },
  'a length with a sign': { answer: 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok' },
  'a NUL in a header': { answer: 'HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 2\r\n\r\nok' },
  'a space before the colon': {
    answer: 'HTTP/1.1 200 OK\r\nX-A : a\r\nContent-Length: 2\r\n\r\nok',
  },
  'a chunk longer than its size': {
    answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n',
    closes: true,
    breaks: true,
  },
  'a switch of protocols': {
    answer: 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
    closes: true,
  },
  'HTTP/1.0 with chunks': {
    answer: 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    closes: true,
  },
  'another version': { answer: 'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok' },
  'a blank line before the status': {
    answer: '\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  },
  'a control character in the reason': {
    answer: 'HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nok',
  },
  'a blank behind a chunk size': {
    answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\t\r\nok\r\n0\r\n\r\n',
    closes: true,
  },
  'a body that does not begin': {
    answer: 'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n',
    closes: true,
  },
  'bare line feeds': { answer: 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok' },
  'a coding before the chunks': {
    answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    closes: true,
  },
  'a length longer than the body': {
    answer: 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok',
    closes: true,
  },
  // Heads that never become well-formed, and never end.
  'a bare carriage return in a header that does not end': {
    answer: 'HTTP/1.1 200 OK\r\nX-R: a\rb',
  },
  'a line feed after the length': { answer: 'HTTP/1.1 200 OK\r\nContent-Length: 23\n\r\n' },
  'bare carriage returns': { answer: 'HTTP/1.1 200 OK\rContent-Length: 2\r\rok' },
  'a fold that does not end': { answer: 'HTTP/1.1 200 OK\r\nX-A: a\r\n b' },
  'a name with a blank, without a value': { answer: 'HTTP/1.1 200 OK\r\nX A' },
  'a control character in a name': { answer: 'HTTP/1.1 200 OK\r\nX\x01' },
  'a status of letters': { answer: 'HTTP/1.1 abc' },
}
