/** Read in about two milliseconds. */
const TURN_CHARACTERS = 256 * 1024

/** Reads much JSON, of our own making, so that calls do not wait until all of it is read. */
export async function parseInTurns<Value>(texts: readonly string[]): Promise<Value[]> {
  const values: Value[] = []
  let characters = 0
  for (const text of texts) {
    values.push(JSON.parse(text) as Value)
    characters += text.length
    if (characters < TURN_CHARACTERS) continue
    characters = 0
    await new Promise((resolve) => setImmediate(resolve))
  }
  return values
}
