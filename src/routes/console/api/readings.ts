/** What is read from elsewhere, and told to all who ask meanwhile and for a while after. What fails is read anew. */
export class Readings<Key, Value> {
  readonly #read: (key: Key) => Promise<Value>
  readonly #freshMs: number
  readonly #known = new Map<Key, Promise<Value>>()

  constructor(read: (key: Key) => Promise<Value>, freshMs: number) {
    this.#read = read
    this.#freshMs = freshMs
  }

  of(key: Key): Promise<Value> {
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const reading = this.#read(key)
    this.#known.set(key, reading)
    const forget = () => void this.#known.delete(key)
    reading.then(() => setTimeout(forget, this.#freshMs).unref(), forget)
    return reading
  }
}
