/** `form-data; name="file"` or `audio/webm; codecs=opus` in parts. */
export interface HeaderValue {
  /** The part before the first `;`, in lower case. */
  readonly value: string
  /** Names in lower case. */
  readonly parameters: ReadonlyMap<string, string>
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const MEDIA_TYPE = /^[!#$&^_.+0-9A-Za-z-]+\/[!#$&^_.+0-9A-Za-z-]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not get into a header
const CONTROLS = /[\u0000-\u001f\u007f]/g

const NO_PARAMETERS: ReadonlyMap<string, string> = new Map()

/** Longest media type and file name that is passed on, in UTF-16 units. */
const MAX_DECLARED = 255

/**
 * Splits a header value with parameters (RFC 9110, section 5.6.6). Unquoted values may hold any character
 * but `;`, as JavaMail writes `boundary=----=_Part_1`. In quoted ones a backslash escapes `"` and `\` only,
 * because browsers send the backslashes of file names as they are.
 *
 * @returns null when a parameter is malformed or given twice
 */
export function parseHeaderValue(text: string): HeaderValue | null {
  const first = text.indexOf(';')
  if (first === -1) return { value: text.trim().toLowerCase(), parameters: NO_PARAMETERS }
  const parameters = new Map<string, string>()
  const value = text.slice(0, first).trim().toLowerCase()
  let at = first
  while (at < text.length) {
    at = skipBlanks(text, at + 1)
    if (at === text.length || text[at] === ';') continue
    const equals = text.indexOf('=', at)
    if (equals === -1) return null
    const name = text.slice(at, equals).trim().toLowerCase()
    if (!TOKEN.test(name) || parameters.has(name)) return null
    const start = skipBlanks(text, equals + 1)
    const read = text[start] === '"' ? readQuoted(text, start + 1) : readPlain(text, start)
    if (read === null) return null
    parameters.set(name, read.value)
    at = skipBlanks(text, read.end)
    if (at < text.length && text[at] !== ';') return null
  }
  return { value, parameters }
}

/** A media type as a caller declared it, when it can be sent on in a header; else null. */
export function declaredMediaType(text: string): string | null {
  const trimmed = text.trim()
  const [essence = ''] = trimmed.split(';', 1)
  if (trimmed.length > MAX_DECLARED || trimmed.search(CONTROLS) !== -1) return null
  return MEDIA_TYPE.test(essence.trim()) ? trimmed : null
}

/** A file name as a caller declared it, without control characters and cut to length; null when nothing is left. */
export function declaredFilename(text: string): string | null {
  const name = text.replace(CONTROLS, '').slice(0, MAX_DECLARED).toWellFormed()
  return name === '' ? null : name
}

function skipBlanks(text: string, from: number): number {
  let at = from
  while (text[at] === ' ' || text[at] === '\t') at++
  return at
}

function readPlain(text: string, start: number): { value: string; end: number } {
  const next = text.indexOf(';', start)
  const end = next === -1 ? text.length : next
  return { value: text.slice(start, end).trim(), end }
}

function readQuoted(text: string, start: number): { value: string; end: number } | null {
  let value = ''
  for (let at = start; at < text.length; at++) {
    let char = text[at]!
    if (char === '"') return { value, end: at + 1 }
    const next = text[at + 1]
    if (char === '\\' && (next === '"' || next === '\\')) {
      char = next
      at++
    }
    value += char
  }
  return null
}
