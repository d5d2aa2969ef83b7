import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { BASE } from '../api/client.ts';

/** A text of the document, with its code between backticks, and links to the pages of docs/ that it names. */
export function Text({ of = '' }: { of?: string | undefined }) {
  return (
    <>
      {of.split(/(`[^`]*`|docs\/[a-z-]+\.md)/).map((part, index) => {
        if (index % 2 === 0) return part;
        if (part.startsWith('`')) return <code key={index}>{part.slice(1, -1)}</code>;
        return (
          <a key={index} href={`${BASE}/${part.replace('.md', '')}`}>
            {part}
          </a>
        );
      })}
    </>
  );
}

/** Content that is made when it is opened: schemas can contain each other. */
export function Fold({ title, children }: { title: string; children: () => ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="small">{title}</summary>
      {isOpen && children()}
    </details>
  );
}

/** Buttons of which one is pressed. */
export function Choice({
  label,
  options,
  value,
  set,
}: {
  label: string;
  options: readonly string[];
  value: string;
  set: (value: string) => void;
}) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map((option) => (
        <button type="button" key={option} aria-pressed={option === value} onClick={() => set(option)}>
          {option}
        </button>
      ))}
    </div>
  );
}
