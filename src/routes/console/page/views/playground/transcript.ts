import type { RefObject } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { html } from '../../html.ts'
import { clock } from './clock.ts'
import { type FollowAlong, markAt } from './follow-along.ts'

/**
 * A transcript whose words are lit while they are heard. A click on a word, or Enter, winds there; the arrow keys go
 * from word to word. What lights up is changed in place: a long transcript is drawn once.
 */
export function Transcript(props: {
  readonly laid: FollowAlong
  /** Null: there is nothing to wind. */
  readonly audio: RefObject<HTMLAudioElement | null> | null
}) {
  const { laid, audio } = props
  const root = useRef<HTMLDivElement>(null)
  useLitMark(laid, audio, root)
  const wind = (index: number) => {
    const mark = laid.marks[index]
    const player = audio?.current
    if (mark === undefined || !player) return
    player.currentTime = mark.start
    void player.play().catch(() => {})
  }
  const step = (event: KeyboardEvent) => {
    const at = markOf(event.target)
    if (at === null) return
    const last = laid.marks.length - 1
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last }[event.key]
    if (to !== undefined) focusMark(root.current, Math.min(last, Math.max(0, to)))
    else if (event.key === 'Enter' || event.key === ' ') wind(at)
    else return
    event.preventDefault()
  }
  const click = ({ target }: MouseEvent) => {
    const at = markOf(target)
    if (at === null) return
    focusMark(root.current, at)
    wind(at)
  }
  const turns = useMemo(() => turnsOf(laid, audio !== null), [laid, audio])
  return html`<div
    ref=${root}
    class="play-transcript"
    role="group"
    aria-label="Transcript"
    onClick=${click}
    onKeyDown=${step}
  >
    ${turns}
  </div>`
}

function turnsOf({ turns, marks }: FollowAlong, winds: boolean) {
  if (turns.length === 0) return html`<p class="quiet">No speech detected.</p>`
  const timed = marks.length > 0 && turns.length > 1
  return turns.map(
    ({ who, start, pieces }, index) => html`<p class="play-turn" key=${index}>
      ${
        who === null && !timed
          ? null
          : html`<span class="play-who">${who ?? ''} <span class="quiet">${clock(start)}</span></span>`
      }
      <span class="play-said">
        ${pieces.map(({ text, mark }) =>
          mark === null || !winds
            ? text
            : html`<span
                class="play-mark"
                role="button"
                tabindex=${mark === 0 ? 0 : -1}
                data-mark=${mark}
              >${text}</span>`,
        )}
      </span>
    </p>`,
  )
}

/** Lights the mark that is heard, at every frame while the audio plays. */
function useLitMark(
  { marks }: FollowAlong,
  audio: RefObject<HTMLAudioElement | null> | null,
  root: RefObject<HTMLDivElement | null>,
): void {
  useEffect(() => {
    const player = audio?.current
    const container = root.current
    if (!player || !container || marks.length === 0) return
    const elements = [...container.querySelectorAll<HTMLElement>('[data-mark]')]
    const byMark = new Map(elements.map((element) => [Number(element.dataset.mark), element]))
    let lit: HTMLElement | null = null
    let frame = 0
    const light = () => {
      const at = markAt(marks, player.currentTime)
      const element = at === null ? null : (byMark.get(at) ?? null)
      if (element !== lit) {
        lit?.classList.remove('play-now')
        element?.classList.add('play-now')
        if (element) keepInSight(container, element)
        lit = element
      }
      frame = player.paused || player.ended ? 0 : requestAnimationFrame(light)
    }
    const begin = () => {
      if (frame === 0) frame = requestAnimationFrame(light)
    }
    for (const event of ['play', 'seeked', 'timeupdate']) player.addEventListener(event, begin)
    return () => {
      cancelAnimationFrame(frame)
      for (const event of ['play', 'seeked', 'timeupdate']) player.removeEventListener(event, begin)
      lit?.classList.remove('play-now')
    }
  }, [marks, audio])
}

/** Scrolls the transcript alone, never the page. */
function keepInSight(container: HTMLElement, element: HTMLElement): void {
  const { top, bottom } = element.getBoundingClientRect()
  const frame = container.getBoundingClientRect()
  if (top < frame.top || bottom > frame.bottom) container.scrollTop += top - frame.top - frame.height / 3
}

function markOf(target: EventTarget | null): number | null {
  const element = target instanceof Element ? target.closest<HTMLElement>('[data-mark]') : null
  return element === null ? null : Number(element.dataset.mark)
}

/** One word alone can be reached by Tab: the last one that had the focus. */
function focusMark(container: HTMLElement | null, index: number): void {
  const element = container?.querySelector<HTMLElement>(`[data-mark="${index}"]`)
  if (!element) return
  container?.querySelector('[data-mark][tabindex="0"]')?.setAttribute('tabindex', '-1')
  element.setAttribute('tabindex', '0')
  element.focus()
}
