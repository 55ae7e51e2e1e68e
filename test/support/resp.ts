/** Where the value that begins at `at` ends, in Redis's protocol of either version; null when it is not all there. */
export function endOfValue(bytes: Buffer, at: number): number | null {
  const lineEnd = bytes.indexOf('\r\n', at)
  if (lineEnd < 0) return null
  const next = lineEnd + 2
  const type = String.fromCharCode(bytes[at] ?? 0)
  const size = Number(bytes.toString('latin1', at + 1, lineEnd))
  switch (type) {
    case '$':
    case '=':
    case '!':
      if (size < 0) return next
      return bytes.length < next + size + 2 ? null : next + size + 2
    case '*':
    case '~':
    case '>':
      return endOfValues(bytes, next, size)
    case '%':
      return endOfValues(bytes, next, size * 2)
    default:
      return next
  }
}

function endOfValues(bytes: Buffer, at: number, count: number): number | null {
  let end: number | null = at
  for (let index = 0; index < count && end !== null; index++) end = endOfValue(bytes, end)
  return end
}

/** The words of a command as clients send it: an array of strings. */
export function wordsOf(command: Buffer): string[] {
  const words: string[] = []
  let at = command.indexOf('\r\n') + 2
  while (at < command.length) {
    const lineEnd = command.indexOf('\r\n', at)
    const size = Number(command.toString('latin1', at + 1, lineEnd))
    words.push(command.toString('utf8', lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 2 + size + 2
  }
  return words
}

/** Cuts a stream of bytes into whole values. */
export class RespReader {
  #rest: Buffer = Buffer.alloc(0)

  /** @returns the values that are whole with these bytes, as they came */
  push(bytes: Buffer): Buffer[] {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const values: Buffer[] = []
    let at = 0
    for (;;) {
      const end = at < this.#rest.length ? endOfValue(this.#rest, at) : null
      if (end === null) break
      values.push(this.#rest.subarray(at, end))
      at = end
    }
    this.#rest = this.#rest.subarray(at)
    return values
  }
}
