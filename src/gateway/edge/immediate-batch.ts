/** Work for the next turn of the event loop; it must not throw. */
export interface Due {
  run(): void
}

/** Does things in the next turn of the event loop, all that came up in this one together: one timer instead of many. */
export class ImmediateBatch {
  #due: Due[] = []

  add(due: Due): void {
    this.#due.push(due)
    if (this.#due.length === 1) setImmediate(this.#run)
  }

  readonly #run = (): void => {
    const due = this.#due
    this.#due = []
    for (const one of due) one.run()
  }
}
