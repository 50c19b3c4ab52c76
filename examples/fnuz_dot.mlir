// jnp.arange(16, dtype=float8_e5m2fnuz) and its dot product with itself, as JAX lowers them.
// f8E5M2FNUZ has three significant bits, so 9 rounds to 8, 11 to 12 and 15 to 16; the dot product is 1280.
func.func public @main() -> (tensor<16xf8E5M2FNUZ>, tensor<f8E5M2FNUZ>) {
  %x = stablehlo.iota dim = 0 : tensor<16xf8E5M2FNUZ>
  %dot = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT]
      : (tensor<16xf8E5M2FNUZ>, tensor<16xf8E5M2FNUZ>) -> tensor<f8E5M2FNUZ>
  return %x, %dot : tensor<16xf8E5M2FNUZ>, tensor<f8E5M2FNUZ>
}
