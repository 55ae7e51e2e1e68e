/** An HTTP answer, its body whole. */
export interface Reply {
  readonly status: number
  /** Lower-case names; of repeated headers the last. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/**
 * Collects the answers of one keep-alive connection that carries one request at a time.
 *
 * @returns a function to be fed with what arrives: the answer once it is whole, until then null
 * @throws  Error on an answer without a length, on a broken head, and on bytes after an answer's end
 */
export function replyReader(): (chunk: Buffer) => Reply | null {
  let received: Buffer = Buffer.alloc(0)
  return (chunk) => {
    received = received.length === 0 ? Buffer.from(chunk) : Buffer.concat([received, chunk])
    const headEnd = received.indexOf('\r\n\r\n')
    if (headEnd < 0) return null
    const { status, headers } = readHead(received.subarray(0, headEnd).toString('latin1'))
    const rest = received.subarray(headEnd + 4)
    const body =
      headers['transfer-encoding'] === 'chunked' ? dechunk(rest) : take(rest, headers['content-length'])
    if (!body) return null
    received = Buffer.alloc(0)
    return { status, headers, body }
  }
}

function readHead(text: string): Pick<Reply, 'status' | 'headers'> {
  const [first = '', ...lines] = text.split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1])
  if (!status) throw new Error(`not an HTTP answer: ${first.slice(0, 80)}`)
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  return { status, headers }
}

function take(rest: Buffer, length: string | undefined): Buffer | null {
  if (length === undefined) throw new Error('an answer without a length')
  if (rest.length > Number(length)) throw new Error('bytes after the end of an answer')
  return rest.length === Number(length) ? rest : null
}

function dechunk(rest: Buffer): Buffer | null {
  const pieces: Buffer[] = []
  let offset = 0
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', offset)
    if (lineEnd < 0) return null
    const bytes = Number.parseInt(rest.toString('latin1', offset, lineEnd), 16)
    const end = lineEnd + 2 + bytes + 2
    if (rest.length < end) return null
    if (bytes === 0) return Buffer.concat(pieces)
    pieces.push(rest.subarray(lineEnd + 2, end - 2))
    offset = end
  }
}
