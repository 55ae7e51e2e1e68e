/** A text that should be a JSON object: what it holds, or why it is none. */
export type ReadJson =
  | { readonly value: Readonly<Record<string, unknown>> | undefined; readonly fault: null }
  | { readonly value: null; readonly fault: string }

/** An empty text is no object at all: `value` undefined. */
export function readJsonObject(text: string): ReadJson {
  if (text.trim() === '') return { value: undefined, fault: null }
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { value: value as Record<string, unknown>, fault: null }
    return { value: null, fault: 'Enter a JSON object: it begins with { and ends with }.' }
  } catch (error) {
    return {
      value: null,
      fault: `This is no JSON: ${error instanceof Error ? error.message : 'unreadable'}.`,
    }
  }
}

/** As it is shown for editing; nothing for what is not there. */
export function jsonText(value: Readonly<Record<string, unknown>> | undefined): string {
  return value === undefined || Object.keys(value).length === 0 ? '' : JSON.stringify(value, null, 2)
}
