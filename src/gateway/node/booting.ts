import { bootStateThread } from '../state/embedded/thread.ts'
import type { NodePlace } from './stores.ts'

const given = (['alone', 'first', 'further'] as const).find((place) => place === process.argv[2])

export const PLACE: NodePlace = given ?? 'alone'
/**
 * The thread of a state in the data folder, which boots while the modules that are imported after this one are
 * evaluated: either takes a tenth of a second. A process that is given its place starts it when it needs it.
 */
export const BOOTING =
  given === undefined && process.env.REDIS_URL === undefined ? bootStateThread() : undefined
