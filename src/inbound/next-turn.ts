/** Does things in the next turn of the event loop, all that came up in this one together: one timer instead of many. */
export class NextTurn {
  #due: (() => void)[] = []

  /** `act` must not throw. */
  add(act: () => void): void {
    this.#due.push(act)
    if (this.#due.length === 1) setImmediate(() => this.#run())
  }

  #run(): void {
    const due = this.#due
    this.#due = []
    for (const act of due) act()
  }
}
