import { useEffect, useReducer, useRef } from 'preact/hooks'
import type { RouteFields } from '../../../../../catalog/file.ts'
import type { RouteAnswer } from '../../../api/answers.ts'
import { api, onSignedInAgain } from '../../api.ts'
import { type ApiError, isPassing, toApiError } from '../../api-error.ts'
import { apiPath } from '../../paths.ts'
import { type Edit, type Editing, edited, editingOf, fieldsOf } from './editing.ts'
import {
  keptFields,
  phaseOf,
  revisionOf,
  type SavePhase,
  type Saving,
  savingAfter,
  savingOf,
} from './saving.ts'

/** Long enough that a word is typed, short enough that nobody waits for it. */
const SAVE_AFTER_MS = 700
const RETRY_AFTER_MS = 5_000

export interface Draft {
  readonly editing: Editing
  /** What is on the screen, as it would be saved. */
  readonly fields: RouteFields
  readonly edit: (edit: Edit) => void
  readonly phase: SavePhase
  readonly saving: Saving
  /** Saves now what is not saved yet; the route as it is kept then, or null when that failed. */
  readonly flush: () => Promise<RouteAnswer | null>
  /** What the server answered to something else, e.g. a publication, is loaded in place of what is on the screen. */
  readonly load: (answer: RouteAnswer) => void
  /** Goes on with what is on the screen, over what somebody else saved. */
  readonly keepMine: () => void
  /** Somebody else changed the route: asks what they made of it. True when that is what the error says. */
  readonly foundConflict: (error: ApiError) => Promise<boolean>
}

/** A draft that saves itself a little after each change, one save after the other. */
export function useDraft(initial: RouteAnswer): Draft {
  const [editing, edit] = useReducer(edited, initial, (answer) => editingOf(keptFields(answer)))
  const [saving, step] = useReducer(savingAfter, initial, savingOf)
  const fields = fieldsOf(editing)
  const phase = phaseOf(saving, fields)
  const place = apiPath`/workspaces/${initial.workspace}/routes/${initial.name}`
  const readOnly = initial.managed_by === 'file'
  const running = useRef<Promise<RouteAnswer | null>>(Promise.resolve(null))
  const latest = useRef({ saving, fields, phase })
  latest.current = { saving, fields, phase }

  const foundConflict = async (error: ApiError) => {
    if (error.status !== 409) return false
    step({ is: 'conflict', theirs: await api.get<RouteAnswer>(place) })
    return true
  }
  const save = async (fields: RouteFields, revision: number | null) => {
    step({ is: 'sent', fields })
    try {
      const answer = await api.put<RouteAnswer>(`${place}/draft`, { fields, revision })
      step({ is: 'known', answer })
      return answer
    } catch (thrown) {
      const error = toApiError(thrown)
      if (!(await foundConflict(error).catch(() => false))) step({ is: 'failed', error })
      return null
    }
  }
  const begin = () => {
    const { saving, fields } = latest.current
    running.current = save(fields, revisionOf(saving))
    return running.current
  }
  const flush = async () => {
    if (latest.current.phase === 'saving') await running.current
    const { phase, saving } = latest.current
    if (phase === 'same') return saving.known
    return phase === 'conflict' ? null : begin()
  }

  useEffect(() => {
    if (phase !== 'unsaved' || readOnly) return
    const timer = setTimeout(begin, SAVE_AFTER_MS)
    return () => clearTimeout(timer)
  }, [editing, phase, readOnly])
  useRetry(phase === 'failed' ? saving.failed : null, () => step({ is: 'again' }))
  // A save that failed is tried again by the next change.
  useEffect(() => step({ is: 'again' }), [editing])

  return {
    editing,
    fields,
    edit,
    phase,
    saving,
    flush,
    load: (answer) => {
      step({ is: 'known', answer })
      edit({ do: 'load', fields: keptFields(answer) })
    },
    keepMine: () => step({ is: 'mine' }),
    foundConflict,
  }
}

/** What failed for a while only goes on by itself: when the line or the session is back, and every few seconds. */
function useRetry(failed: ApiError | null, again: () => void): void {
  useEffect(() => {
    if (failed === null || !isPassing(failed)) return
    const timer = failed.status === 401 ? undefined : setTimeout(again, RETRY_AFTER_MS)
    const forget = onSignedInAgain(again)
    addEventListener('online', again)
    return () => {
      clearTimeout(timer)
      forget()
      removeEventListener('online', again)
    }
  }, [failed])
}
