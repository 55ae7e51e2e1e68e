import type { BodyHolds, BodySource } from '../../contracts/audio.ts'
import type { SealedObjects } from './sealed-objects.ts'

interface Held {
  count: number
  /** Gives the body back; null: its owner still has it. */
  free: (() => void) | null
}

/**
 * Keeps bodies for those who read them beyond their call: a held body is given back when the last reader is done, any
 * other at once. Held bodies are found by their place: the list of their blocks, the name of their object.
 */
export class HeldBodies implements BodyHolds {
  readonly #held = new Map<object | string, Held>()
  /** Lists of blocks whose owner asks before it gives them back. */
  readonly #known = new WeakSet<object>()

  /** Makes known a body in memory that its owner gives back by `free`. */
  admit(source: BodySource): void {
    if (source.kind === 'memory') this.#known.add(source.blocks)
  }

  hold(source: BodySource): (() => void) | null {
    const place = holdKey(source)
    if (typeof place !== 'string' && !this.#known.has(place)) return null
    const held = this.#held.get(place) ?? { count: 0, free: null }
    this.#held.set(place, held)
    held.count += 1
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      held.count -= 1
      if (held.count > 0) return
      this.#held.delete(place)
      held.free?.()
    }
  }

  /** Gives a body back by `free`, now or as soon as it is not held any more. */
  free(source: BodySource, free: () => void): void {
    const held = this.#held.size === 0 ? undefined : this.#held.get(holdKey(source))
    if (held === undefined) free()
    else held.free = free
  }

  /** The same store, whose objects stay as long as they are held. A removal resolves when it is done. */
  keeping(objects: SealedObjects): SealedObjects {
    const remove = (key: string): Promise<void> => {
      if (!this.#held.has(key)) return objects.remove(key)
      return new Promise((resolve, reject) => {
        this.free({ kind: 'object', key }, () => void objects.remove(key).then(resolve, reject))
      })
    }
    return { ...objects, remove, sealing: { ...objects.sealing, remove } }
  }
}

function holdKey(source: BodySource): object | string {
  return source.kind === 'memory' ? source.blocks : source.key
}
