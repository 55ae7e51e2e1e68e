// A text as one literal of a language: whatever it holds, it stays that text and nothing else.

/** One word of a POSIX shell; bare where nothing in it means anything to a shell. */
export function shellWord(text: string): string {
  if (/^[\w./:=@%+,-]+$/.test(text)) return text
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** A string literal of JavaScript, in single quotes. */
export function jsString(text: string): string {
  const inside = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")
  return `'${inside.replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}'`
}

/** A string literal of Python, in double quotes: every escape of JSON means the same there. */
export function pythonString(text: string): string {
  return JSON.stringify(text)
}

/** What a snippet hands over. */
export type Literal = string | number | boolean | null | readonly string[]

export function jsLiteral(value: Literal): string {
  if (typeof value === 'string') return jsString(value)
  if (typeof value === 'object' && value !== null) return `[${value.map(jsString).join(', ')}]`
  return String(value)
}

export function pythonLiteral(value: Literal): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'object') return `[${value.map(pythonString).join(', ')}]`
  return typeof value === 'string' ? pythonString(value) : String(value)
}
