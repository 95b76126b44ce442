"""What every engine is written with: options, values, one gathered `Given`, releases, rules."""
