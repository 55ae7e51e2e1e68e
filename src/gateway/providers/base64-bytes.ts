/** The bytes of a value that is base64 through and through; null for anything else, for the empty text too. */
export function base64Bytes(value: unknown): Buffer | null {
  if (typeof value !== 'string') return null
  const bytes = Buffer.from(value, 'base64')
  const digits = value.length - (value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0)
  return bytes.length === Math.floor((digits * 3) / 4) && bytes.length > 0 ? bytes : null
}
