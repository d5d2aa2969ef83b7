import type { ComponentChildren, JSX } from 'preact';
import { useId } from 'preact/hooks';

interface FieldProps {
  label: string;
  help?: ComponentChildren;
}

/** A labelled input. */
export function TextField({
  label,
  help,
  value,
  set,
  ...rest
}: FieldProps & { value: string; set: (value: string) => void } & Omit<
    JSX.InputHTMLAttributes<HTMLInputElement>,
    'value' | 'label'
  >) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        class="input"
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
        {...(help ? { 'aria-describedby': `${id}-help` } : {})}
        {...rest}
      />
      {help && (
        <span class="help" id={`${id}-help`}>
          {help}
        </span>
      )}
    </div>
  );
}

/** A labelled field of several lines. */
export function AreaField({
  label,
  help,
  value,
  set,
  ...rest
}: FieldProps & { value: string; set: (value: string) => void } & Omit<
    JSX.TextareaHTMLAttributes<HTMLTextAreaElement>,
    'value' | 'label'
  >) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        class="input"
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
        {...(help ? { 'aria-describedby': `${id}-help` } : {})}
        {...rest}
      />
      {help && (
        <span class="help" id={`${id}-help`}>
          {help}
        </span>
      )}
    </div>
  );
}

/** A labelled select; an option without a label shows its value. */
export function SelectField({
  label,
  value,
  set,
  options,
}: FieldProps & {
  value: string;
  set: (value: string) => void;
  options: readonly (string | { value: string; label: string })[];
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} class="input" value={value} onChange={(event) => set(event.currentTarget.value)}>
        {options.map((option) => {
          const { value: each, label: text } =
            typeof option === 'string' ? { value: option, label: option.replaceAll('_', ' ') } : option;
          return (
            <option key={each} value={each}>
              {text}
            </option>
          );
        })}
      </select>
    </div>
  );
}
