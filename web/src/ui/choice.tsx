/** Buttons of which one is pressed. */
export function Choice<Value extends string>({
  label,
  options,
  value,
  set,
}: {
  label: string;
  options: readonly { value: Value; label: string }[];
  value: string;
  set: (value: Value) => void;
}) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => set(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}
