import { isUtf8 } from 'node:buffer'
import { declaredFilename, declaredMediaType, parseHeaderValue } from './header-value.ts'
import { invalid, invalidField } from './refusals.ts'

/** What the headers of one part of multipart/form-data say (RFC 7578, section 4). */
export interface PartHead {
  readonly name: string
  /** True when the part has a file name, be it empty. */
  readonly hasFilename: boolean
  readonly filename: string | null
  readonly mediaType: string | null
  /** Label of the text encoding of a field; null: UTF-8. */
  readonly charset: string | null
}

/** Longest field name, in UTF-16 units: names come back in errors and warnings. */
const MAX_NAME = 128
const IDENTITY_ENCODINGS: ReadonlySet<string> = new Set(['binary', '8bit', '7bit'])
/** `charset'language'percent-encoded` (RFC 8187). */
const EXTENDED = /^(utf-8|iso-8859-1)'[^']*'(.*)$/i

/**
 * @param block the header lines of a part with their line ends, without the empty line
 * @throws GatewayError INVALID_REQUEST
 */
export function parsePartHead(block: Buffer): PartHead {
  const headers = readHeaders(isUtf8(block) ? block.toString('utf8') : block.toString('latin1'))
  const disposition = parseHeaderValue(headers.get('content-disposition') ?? '')
  const name = disposition?.value === 'form-data' ? disposition.parameters.get('name') : undefined
  if (disposition === null || name === undefined || name === '') {
    throw invalid('every part needs a Content-Disposition of form-data with a name')
  }
  if (name.length > MAX_NAME) throw invalid(`field names are at most ${MAX_NAME} characters long`)

  const transfer = headers.get('content-transfer-encoding')?.trim().toLowerCase()
  if (transfer !== undefined && !IDENTITY_ENCODINGS.has(transfer)) {
    throw invalidField(name, 'must be sent as it is, without Content-Transfer-Encoding')
  }
  const type = headers.get('content-type')
  const filename = disposition.parameters.get('filename')
  const extended = disposition.parameters.get('filename*')
  return {
    name,
    hasFilename: filename !== undefined || extended !== undefined,
    filename: declaredFilename(decodeExtended(extended) ?? filename ?? ''),
    mediaType: type === undefined ? null : declaredMediaType(type),
    charset: type === undefined ? null : (parseHeaderValue(type)?.parameters.get('charset') ?? null),
  }
}

/** Header lines by lower-case name. Folded lines (RFC 822) are joined; a repeated header is refused. */
function readHeaders(text: string): Map<string, string> {
  const headers = new Map<string, string>()
  for (const line of text.replace(/\r\n[ \t]+/g, ' ').split('\r\n')) {
    if (line === '') continue
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    if (colon < 1 || /[\r\n\0]/.test(line) || /\s/.test(name)) throw invalid('a part has a malformed header')
    if (headers.has(name)) throw invalid(`a part has the header ${name} twice`)
    headers.set(name, line.slice(colon + 1))
  }
  return headers
}

function decodeExtended(text: string | undefined): string | undefined {
  const [, charset = '', encoded = ''] = EXTENDED.exec(text ?? '') ?? []
  if (charset === '') return undefined
  try {
    if (charset.toLowerCase() === 'utf-8') return decodeURIComponent(encoded)
    return encoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
  } catch {
    return undefined
  }
}
